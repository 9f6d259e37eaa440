/* Powers, and the tables they come from. */
#ifndef PLUMBLINE_POWERS_H
#define PLUMBLINE_POWERS_H

#include "ring.h"

/* An exponent that all bases are raised to. */
struct exponent {
    const uint8_t *bytes; /* little-endian, (bits + 7) / 8 of them */
    size_t bits;
    bool secret;
};

/* table[i] = the product of the elements q for which bit q of i is set, for i < 2**count. `batch` is workspace of two
 * batches, `unused` of one element. */
void subset_products(
    const struct ring *ring, word *table, const word *elements, size_t count, word *batch, word *unused
);

/* Write the powers of `count` elements in Montgomery form as residues. */
bool batch_powers(
    const struct ring *ring, uint8_t *out, const word *bases, size_t count, const struct exponent *exponent
);

/* Lists of elements by their numbers, one list after the other. */
struct lists {
    const int64_t *order; /* numbers of elements */
    const int64_t *ends;  /* (count,), ascending: where each list ends in `order` */
    size_t count;
};

/* Write the product of every list's elements as a residue. Lists of about one length stand best beside each other: lanes
 * hold one list each, and wait for the longest. */
bool list_products(const struct ring *ring, uint8_t *out, const word *elements, const struct lists *lists);

/* Tables of some bases: the powers below 256 of each. */
struct fixed_bases {
    struct pool pool;
    struct ring ring;
    size_t bases;
    word *tables;
};

/* Compute the tables of bases that are given as residues. */
bool fixed_bases_open(
    struct fixed_bases *fixed, const struct modulus *modulus, const uint8_t *residues, size_t bases
);

/* Write the product of base_k**e_k for each of `count` exponents, whose byte k is e_k. Threads may share the tables. */
bool fixed_bases_powers(const struct fixed_bases *fixed, uint8_t *out, const uint8_t *exponents, size_t count);

#endif
