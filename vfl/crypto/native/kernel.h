/* What the library offers to Python (vfl/crypto/kernels/native.py), which checks everything before it calls.
 *
 * Residues are `width` little-endian bytes, below the modulus. Every call gives 0, or 1 where there is no memory, or 2
 * for sizes that can't be.
 */
#ifndef PLUMBLINE_KERNEL_H
#define PLUMBLINE_KERNEL_H

#include "powers.h"
#include "product.h"

#define EXPORT __attribute__((visibility("default")))

enum { DONE = 0, NO_MEMORY = 1, WRONG_SIZE = 2 };

/* SHA-256 of the sources that this was compiled from, in hexadecimal. */
EXPORT const char *plumbline_sources(void);

/* How many lanes this processor and its operating system have: 8 with AVX-512 IFMA, else 1. */
EXPORT int plumbline_lanes(void);

/* The product of all residues. */
EXPORT int plumbline_total(const struct modulus *modulus, const uint8_t *residues, uint64_t count, uint8_t *out);

/* Answers of `task` about its rows' ciphertexts. */
EXPORT int plumbline_product(
    const struct modulus *modulus, const uint8_t *ciphertexts, const struct task *task, uint8_t *out
);

/* Every base to one exponent of so many bits; `secret` != 0 where its digits may not be told by time. */
EXPORT int plumbline_powers(
    const struct modulus *modulus, const uint8_t *bases, uint64_t count, const uint8_t *exponent,
    uint64_t exponent_bits, int secret, uint8_t *out
);

/* The product of each of `count` lists of residues: their numbers in `order`, where `ends` has each list's end. */
EXPORT int plumbline_lists(
    const struct modulus *modulus, const uint8_t *residues, uint64_t residues_count, const int64_t *order,
    const int64_t *ends, uint64_t count, uint8_t *out
);

/* Tables of bases, one for each byte of an exponent; closed by plumbline_fixed_close. */
EXPORT int plumbline_fixed_open(
    const struct modulus *modulus, const uint8_t *bases, uint64_t count, struct fixed_bases **fixed
);

/* For each of `count` exponents, the product of every base to its byte. */
EXPORT int plumbline_fixed_powers(
    const struct fixed_bases *fixed, const uint8_t *exponents, uint64_t count, uint8_t *out
);

EXPORT void plumbline_fixed_close(struct fixed_bases *fixed);

#endif
