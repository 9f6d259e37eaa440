/* Residues modulo n or modulo n**2 in Montgomery form, for one lane or eight.
 *
 * R = 2**(bits * digits) >= 16 n. A residue x is kept as x R (Montgomery 1985), in digits that are not reduced to the
 * end (Gueron and Krasnov's "almost Montgomery"): nothing is compared or subtracted in between.
 *
 * Modulo n**2 a residue is two numbers below 2 n, its parts (a0, a1) of a0 + a1 n. Montgomery's step writes
 * a0 b0 = R r - m n, with m < R and r < 2 n, so that
 *
 *     (a0 + a1 n) (b0 + b1 n) = R r + n (a0 b1 + a1 b0 - m)   modulo n**2,
 *
 * and its product by 1/R is (r, (a0 b1 + a1 b0 - m) / R modulo n): three products and two reductions of half the
 * length, 5/8 of the work of one product modulo n**2. Instead of -m stands (R - 1 - m) + c with c = 1 - R modulo n,
 * 0 < c <= n, which is never negative. Bounds: T = a0 b0 < 4 n**2 gives r < T / R + n < 2 n, and
 * U = a0 b1 + a1 b0 + R + n < 8 n**2 + R + n gives U / R + n < 2 n.
 *
 * An element is the digits of one residue, its parts one after the other, padded to `words`. A batch is `count`
 * residues with their digits interleaved: digit i of lane l is word i * count + l.
 */
#ifndef PLUMBLINE_RING_H
#define PLUMBLINE_RING_H

#include "digits.h"

struct ring;

/* What the algorithms ask of a processor. Batches may be the same memory, whichever is written. */
struct lanes {
    size_t count;
    unsigned bits;   /* of a digit */
    size_t granule;  /* the digits of a part are a multiple of it */
    size_t padding;  /* the words of an element are a multiple of it */
    size_t scratch;  /* digits of scratch memory, for each digit of a part */
    /* out = a b / R */
    void (*multiply)(const struct ring *ring, word *out, const word *a, const word *b);
    /* out = a a / R */
    void (*square)(const struct ring *ring, word *out, const word *a);
    /* out = wide / R, where wide is a batch of plain numbers of 2 * digits digits below the modulus */
    void (*reduce)(const struct ring *ring, word *out, const word *wide);
    /* Between `count` elements and a batch. */
    void (*gather)(size_t words, word *batch, const word *const *elements);
    void (*scatter)(size_t words, word *const *elements, const word *batch);
    /* out = table[index], of batches of so many words, reading all of the table. */
    void (*select)(word *out, const word *table, size_t entries, size_t words, size_t index);
};

#define MOST_LANES 8
extern const struct lanes scalar_lanes, ifma_lanes;

/* What a caller says of a modulus. */
struct modulus {
    uint64_t lanes;      /* 1 or 8 */
    uint64_t parts;      /* 1: modulo root; 2: modulo root**2 */
    uint64_t root_bits;  /* the length of root, which is odd and at least 3 */
    uint64_t width;      /* bytes of a residue that comes or goes */
    const uint8_t *root; /* little-endian, (root_bits + 7) / 8 bytes */
};

struct ring {
    const struct lanes *lanes;
    size_t parts, digits, words, width;
    word inverse;      /* -1 / n modulo 2**bits */
    word *n;           /* an element */
    word *n_batch;     /* n in every lane, like all below */
    word *complement;  /* c of above */
    word *one;         /* R */
    word *cube;        /* R**3 */
    word *unit;        /* 1 */
    word *scratch;     /* of whoever uses the ring: threads that share the rest have their own */
};

/* Compute the constants. False where there is no memory. */
bool ring_open(struct ring *ring, struct pool *pool, const struct modulus *modulus);

/* Give a ring that shares its constants scratch memory of its own. */
bool ring_share(struct ring *mine, struct pool *pool, const struct ring *ring);

/* Words of a batch. */
static inline size_t batch_words(const struct ring *ring) { return ring->words * ring->lanes->count; }

/* Put one element into every lane. */
void ring_spread(const struct ring *ring, word *batch, const word *element);

/* Read residues of `width` bytes below the modulus into elements in Montgomery form. */
bool ring_import(const struct ring *ring, word *elements, const uint8_t *bytes, size_t count);

/* Write the first `count` lanes of a batch as residues of `width` bytes, reduced. */
bool ring_export(const struct ring *ring, uint8_t *bytes, const word *batch, size_t count);

/* Multiply all elements; the product is in every lane of `batch`. */
bool ring_total(const struct ring *ring, word *batch, const word *elements, size_t count);

#endif
