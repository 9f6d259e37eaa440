/* See digits.h. */
#include "digits.h"

#include <string.h>

void digits_from_bytes(word *digits, size_t count, unsigned bits, const uint8_t *bytes, size_t length) {
    word2 pending = 0;
    unsigned have = 0;
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        for (; have < bits; have += 8, at++)
            pending |= (word2)(at < length ? bytes[at] : 0) << have;
        digits[i] = (word)pending & digit_mask(bits);
        pending >>= bits;
        have -= bits;
    }
}

void bytes_from_digits(uint8_t *bytes, size_t length, const word *digits, size_t count, unsigned bits) {
    word2 pending = 0;
    unsigned have = 0;
    size_t at = 0;
    for (size_t i = 0; i < length; i++) {
        if (have < 8) {
            pending |= (word2)(at < count ? digits[at] : 0) << have;
            have += bits;
            at++;
        }
        bytes[i] = (uint8_t)pending;
        pending >>= 8;
        have -= 8;
    }
}

void digits_double(word *a, size_t count, unsigned bits, word carry) {
    for (size_t i = 0; i < count; i++) {
        word top = a[i] >> (bits - 1);
        a[i] = (a[i] << 1 | carry) & digit_mask(bits);
        carry = top;
    }
}

void digits_increment(word *a, size_t count, unsigned bits, word carry) {
    for (size_t i = 0; i < count; i++) {
        word2 sum = (word2)a[i] + carry;
        a[i] = (word)sum & digit_mask(bits);
        carry = (word)(sum >> bits);
    }
}

/* a - n, less what is borrowed; out may be NULL for the borrow alone. */
static word subtract_masked(word *a, const word *n, size_t count, unsigned bits, word mask) {
    word borrow = 0;
    for (size_t i = 0; i < count; i++) {
        word2 difference = (word2)a[i] - (n[i] & mask) - borrow;
        borrow = (word)(difference >> 127);
        a[i] = (word)difference & digit_mask(bits);
    }
    return borrow;
}

static word is_smaller(const word *a, const word *n, size_t count) {
    word borrow = 0;
    for (size_t i = 0; i < count; i++)
        borrow = (word)(((word2)a[i] - n[i] - borrow) >> 127);
    return borrow;
}

word digits_subtract_if_larger(word *a, const word *n, size_t count, unsigned bits) {
    word larger = 1 - is_smaller(a, n, count);
    subtract_masked(a, n, count, bits, 0 - larger);
    return larger;
}

void digits_multiply_add(word *out, const word *a, const word *b, const word *c, size_t count, unsigned bits) {
    memcpy(out, a, count * sizeof *out);
    memset(out + count, 0, count * sizeof *out);
    for (size_t i = 0; i < count; i++) {
        word carry = 0;
        for (size_t j = 0; j < count; j++) {
            word2 sum = (word2)b[i] * c[j] + out[i + j] + carry;
            out[i + j] = (word)sum & digit_mask(bits);
            carry = (word)(sum >> bits);
        }
        out[i + count] = carry;
    }
}

word digit_negative_inverse(word n, unsigned bits) {
    /* Newton: every step doubles the correct bits, n is its own inverse modulo 8. */
    word inverse = n;
    for (int i = 0; i < 5; i++)
        inverse *= 2 - n * inverse;
    return (0 - inverse) & digit_mask(bits);
}
