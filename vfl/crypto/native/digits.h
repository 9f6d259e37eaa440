/* Numbers of h digits of 52 or 64 bits, one word a digit, the lowest first.
 *
 * These are the steps that happen once a number; what happens for every digit of a product is in scalar.c and ifma.c.
 * Neither branches nor addresses depend on digits.
 */
#ifndef PLUMBLINE_DIGITS_H
#define PLUMBLINE_DIGITS_H

#include "memory.h"

__extension__ typedef unsigned __int128 word2;

/* The largest digit. */
static inline word digit_mask(unsigned bits) { return bits == 64 ? ~(word)0 : ((word)1 << bits) - 1; }

/* Read little-endian bytes; digits beyond them are zero. */
void digits_from_bytes(word *digits, size_t count, unsigned bits, const uint8_t *bytes, size_t length);

/* Write little-endian bytes; what doesn't fit is left out, it is zero where callers know the size. */
void bytes_from_digits(uint8_t *bytes, size_t length, const word *digits, size_t count, unsigned bits);

/* a = 2 a + carry, carry is 0 or 1; the caller knows that the top digit has room. */
void digits_double(word *a, size_t count, unsigned bits, word carry);

/* a = a + carry, carry is 0 or 1. */
void digits_increment(word *a, size_t count, unsigned bits, word carry);

/* Subtract n from a where a >= n, and tell whether, as 0 or 1. */
word digits_subtract_if_larger(word *a, const word *n, size_t count, unsigned bits);

/* out = a + b c, of 2 count digits. */
void digits_multiply_add(word *out, const word *a, const word *b, const word *c, size_t count, unsigned bits);

/* -1 / n modulo 2**bits, for odd n. */
word digit_negative_inverse(word n, unsigned bits);

#endif
