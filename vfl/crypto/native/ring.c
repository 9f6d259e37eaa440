/* Constants of a ring, and the way in and out of Montgomery form. See ring.h. */
#include "ring.h"

#include <string.h>

static size_t round_up(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

/* Words of a plain number of twice a part's digits. */
static size_t wide_words(const struct ring *ring) { return round_up(2 * ring->digits, ring->lanes->padding); }

static word *new_batch(const struct ring *ring, struct pool *pool) {
    return pool_words(pool, ring->words, ring->lanes->count);
}

static bool take_memory(struct ring *ring, struct pool *pool) {
    ring->n = pool_words(pool, ring->words, 1);
    ring->n_batch = new_batch(ring, pool);
    ring->complement = new_batch(ring, pool);
    ring->one = new_batch(ring, pool);
    ring->cube = new_batch(ring, pool);
    ring->unit = new_batch(ring, pool);
    return ring_share(ring, pool, ring);
}

bool ring_share(struct ring *mine, struct pool *pool, const struct ring *ring) {
    *mine = *ring;
    mine->scratch = pool_words(pool, ring->digits * ring->lanes->scratch, ring->lanes->count);
    return !pool->failed;
}

/* Bring the parts of an element below n: r above n counts one n in the other part. */
static void normalise(const struct ring *ring, word *element) {
    const unsigned bits = ring->lanes->bits;
    word carry = digits_subtract_if_larger(element, ring->n, ring->digits, bits);
    if (ring->parts == 1)
        return;
    word *second = element + ring->digits;
    digits_increment(second, ring->digits, bits, carry);
    digits_subtract_if_larger(second, ring->n, ring->digits, bits);
    digits_subtract_if_larger(second, ring->n, ring->digits, bits);
}

/* x = 2 x modulo the modulus, x and the result normalised. */
static void twice(const struct ring *ring, word *x) {
    const unsigned bits = ring->lanes->bits;
    digits_double(x, ring->digits, bits, 0);
    word carry = digits_subtract_if_larger(x, ring->n, ring->digits, bits);
    if (ring->parts == 1)
        return;
    digits_double(x + ring->digits, ring->digits, bits, carry);
    digits_subtract_if_larger(x + ring->digits, ring->n, ring->digits, bits);
}

/* c = 1 - R modulo n, in (0, n], from the first part of R. */
static void set_complement(const struct ring *ring, word *c, const word *r) {
    const unsigned bits = ring->lanes->bits;
    word borrow = 0;
    for (size_t i = 0; i < ring->digits; i++) {
        word2 difference = (word2)ring->n[i] - r[i] - borrow;
        borrow = (word)(difference >> 127);
        c[i] = (word)difference & digit_mask(bits);
    }
    digits_increment(c, ring->digits, bits, 1);
}

/* R**3, which is the Montgomery form of 2**e for e = 2 log2(R), by squaring and multiplying. */
static void set_cube(const struct ring *ring, const word *two) {
    const size_t exponent = 2 * (size_t)ring->lanes->bits * ring->digits;
    memcpy(ring->cube, ring->one, batch_words(ring) * sizeof(word));
    for (int bit = 8 * (int)sizeof exponent - 1; bit >= 0; bit--) {
        ring->lanes->square(ring, ring->cube, ring->cube);
        if (exponent >> bit & 1)
            ring->lanes->multiply(ring, ring->cube, ring->cube, two);
    }
}

static void set_constants(struct ring *ring, size_t root_bits, word *x, word *two) {
    const unsigned bits = ring->lanes->bits;
    ring_spread(ring, ring->n_batch, ring->n);
    x[0] = 1;
    ring_spread(ring, ring->unit, x);
    x[0] = 0;
    /* From the largest power of two below n. */
    x[(root_bits - 1) / bits] = (word)1 << (root_bits - 1) % bits;
    for (size_t power = root_bits - 1; power < bits * ring->digits; power++)
        twice(ring, x);
    ring_spread(ring, ring->one, x);
    word *c = two; /* before it is needed for the other */
    set_complement(ring, c, x);
    ring_spread(ring, ring->complement, c);
    twice(ring, x);
    ring_spread(ring, two, x);
    set_cube(ring, two);
}

bool ring_open(struct ring *ring, struct pool *pool, const struct modulus *modulus) {
    const struct lanes *lanes = modulus->lanes == 1 ? &scalar_lanes : &ifma_lanes;
    const size_t digits = (modulus->root_bits + 4 + lanes->bits - 1) / lanes->bits;
    memset(ring, 0, sizeof *ring);
    ring->lanes = lanes;
    ring->parts = modulus->parts;
    ring->digits = round_up(digits, lanes->granule);
    ring->words = round_up(ring->parts * ring->digits, lanes->padding);
    ring->width = modulus->width;
    word *x = pool_words(pool, ring->words, 1), *two = new_batch(ring, pool);
    if (!take_memory(ring, pool))
        return false;
    digits_from_bytes(ring->n, ring->digits, lanes->bits, modulus->root, (modulus->root_bits + 7) / 8);
    ring->inverse = digit_negative_inverse(ring->n[0], lanes->bits);
    set_constants(ring, modulus->root_bits, x, two);
    return true;
}

void ring_spread(const struct ring *ring, word *batch, const word *element) {
    const word *lanes[MOST_LANES];
    for (size_t lane = 0; lane < ring->lanes->count; lane++)
        lanes[lane] = element;
    ring->lanes->gather(ring->words, batch, lanes);
}

/* Lanes beyond the last residue repeat the first of their batch. */
static size_t used_lanes(const struct ring *ring, size_t start, size_t count) {
    const size_t left = count - start;
    return left < ring->lanes->count ? left : ring->lanes->count;
}

bool ring_import(const struct ring *ring, word *elements, const uint8_t *bytes, size_t count) {
    const struct lanes *lanes = ring->lanes;
    const size_t wide = wide_words(ring);
    struct pool pool = {0};
    word *numbers = pool_words(&pool, wide, lanes->count), *batch = pool_words(&pool, wide, lanes->count);
    word *residues = new_batch(ring, &pool), *unused = pool_words(&pool, ring->words, 1);
    for (size_t start = 0; !pool.failed && start < count; start += lanes->count) {
        const size_t used = used_lanes(ring, start, count);
        const word *sources[MOST_LANES];
        word *targets[MOST_LANES];
        for (size_t lane = 0; lane < lanes->count; lane++) {
            sources[lane] = numbers + (lane < used ? lane : 0) * wide;
            targets[lane] = lane < used ? elements + (start + lane) * ring->words : unused;
        }
        for (size_t lane = 0; lane < used; lane++)
            digits_from_bytes(
                numbers + lane * wide, 2 * ring->digits, lanes->bits, bytes + (start + lane) * ring->width, ring->width
            );
        lanes->gather(wide, batch, sources);
        lanes->reduce(ring, residues, batch);
        lanes->multiply(ring, residues, residues, ring->cube);
        lanes->scatter(ring->words, targets, residues);
    }
    pool_release(&pool);
    return !pool.failed;
}

bool ring_export(const struct ring *ring, uint8_t *bytes, const word *batch, size_t count) {
    const struct lanes *lanes = ring->lanes;
    struct pool pool = {0};
    word *plain = new_batch(ring, &pool), *elements = new_batch(ring, &pool);
    word *number = pool_words(&pool, 2, ring->digits), *zero = pool_words(&pool, 1, ring->digits);
    if (!pool.failed) {
        word *targets[MOST_LANES];
        for (size_t lane = 0; lane < lanes->count; lane++)
            targets[lane] = elements + lane * ring->words;
        lanes->multiply(ring, plain, batch, ring->unit);
        lanes->scatter(ring->words, targets, plain);
        for (size_t lane = 0; lane < count; lane++) {
            normalise(ring, targets[lane]);
            const word *second = ring->parts == 2 ? targets[lane] + ring->digits : zero;
            digits_multiply_add(number, targets[lane], second, ring->n, ring->digits, lanes->bits);
            bytes_from_digits(bytes + lane * ring->width, ring->width, number, 2 * ring->digits, lanes->bits);
        }
    }
    pool_release(&pool);
    return !pool.failed;
}

/* Multiply the lanes of a batch with each other; each ends with the whole product. */
static void fold_lanes(const struct ring *ring, word *batch, word *elements, word *other) {
    const size_t count = ring->lanes->count;
    word *targets[MOST_LANES];
    const word *turned[MOST_LANES];
    for (size_t distance = count / 2; distance > 0; distance /= 2) {
        for (size_t lane = 0; lane < count; lane++)
            targets[lane] = elements + lane * ring->words;
        ring->lanes->scatter(ring->words, targets, batch);
        for (size_t lane = 0; lane < count; lane++)
            turned[lane] = targets[lane ^ distance];
        ring->lanes->gather(ring->words, other, turned);
        ring->lanes->multiply(ring, batch, batch, other);
    }
}

bool ring_total(const struct ring *ring, word *batch, const word *elements, size_t count) {
    const size_t lanes = ring->lanes->count;
    struct pool pool = {0};
    word *factor = new_batch(ring, &pool), *apart = new_batch(ring, &pool), *one = pool_words(&pool, ring->words, 1);
    if (!pool.failed) {
        memcpy(batch, ring->one, batch_words(ring) * sizeof(word));
        for (size_t digit = 0; digit < ring->words; digit++)
            one[digit] = ring->one[digit * lanes];
        for (size_t start = 0; start < count; start += lanes) {
            const word *sources[MOST_LANES];
            for (size_t lane = 0; lane < lanes; lane++)
                sources[lane] = start + lane < count ? elements + (start + lane) * ring->words : one;
            ring->lanes->gather(ring->words, factor, sources);
            ring->lanes->multiply(ring, batch, batch, factor);
        }
        fold_lanes(ring, batch, apart, factor);
    }
    pool_release(&pool);
    return !pool.failed;
}
