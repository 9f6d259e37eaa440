/* One lane of 59-bit digits in 64-bit limbs, for every processor whose compiler has unsigned __int128.
 *
 * Products and reductions go column by column ("product scanning"): column k is the sum of all x_i y_(k-i), with the
 * carry of the column before, and 59 bits leave room for more summands than the longest modulus has (3 h of them below
 * 2**118, h < 341). Limbs of 64 bits are fewer, but their carries cost more than that saves.
 */
#include "ring.h"
#include "select.h"

#include <string.h>

#define BITS 59

static const word MASK = ((word)1 << BITS) - 1;

/* sum + x[0] y[0] + x[1] y[-1] + ... of so many summands. */
static inline word2 add_dot(word2 sum, const word *x, const word *y, size_t count) {
#pragma GCC unroll 4
    for (size_t i = 0; i < count; i++)
        sum += (word2)x[i] * y[-(ptrdiff_t)i];
    return sum;
}

/* Column k of x y, for numbers of h digits. */
static inline word2 add_column(word2 sum, const word *x, const word *y, size_t h, size_t k) {
    const size_t first = k < h ? 0 : k - h + 1, last = k < h ? k : h - 1;
    return add_dot(sum, x + first, y + k - first, last + 1 - first);
}

/* Column k of x x: what stands beside the diagonal counts twice. */
static inline word2 add_square_column(word2 sum, const word *x, size_t h, size_t k) {
    const size_t first = k < h ? 0 : k - h + 1, pairs = (k + 1) / 2 - first;
    sum += 2 * add_dot(0, x + first, x + k - first, pairs);
    return k % 2 == 0 ? sum + (word2)x[k / 2] * x[k / 2] : sum;
}

/* Choose the next digit m_k of the quotient, which makes column k zero; gives its carry. */
static inline word2 choose_digit(const struct ring *ring, word2 sum, word *m, size_t k) {
    sum = add_dot(sum, m, ring->n + k, k);
    m[k] = (word)sum * ring->inverse & MASK;
    return (sum + (word2)m[k] * ring->n[0]) >> BITS;
}

/* out = (a b + m n) / R, where `doubled` says that b is a; m's digits are kept. */
static inline void first_part(
    const struct ring *ring, word *out, word *m, const word *a, const word *b, bool same
) {
    const size_t h = ring->digits;
    word2 sum = 0;
    for (size_t k = 0; k < 2 * h; k++) {
        sum = same ? add_square_column(sum, a, h, k) : add_column(sum, a, b, h, k);
        if (k < h) {
            sum = choose_digit(ring, sum, m, k);
        } else {
            sum = add_column(sum, m, ring->n, h, k);
            out[k - h] = (word)sum & MASK;
            sum >>= BITS;
        }
    }
}

/* out = (x y + u v + R - 1 - m + c + m' n) / R, without u v where u is NULL; m' takes the place of m. */
static inline void second_part(
    const struct ring *ring, word *out, word *m, const word *x, const word *y, const word *u, const word *v
) {
    const size_t h = ring->digits;
    word2 sum = 0;
    for (size_t k = 0; k < 2 * h; k++) {
        if (x != NULL)
            sum = add_column(sum, x, y, h, k);
        if (u != NULL)
            sum = add_column(sum, u, v, h, k);
        if (k < h) {
            sum += (word2)ring->complement[k] + (m[k] ^ MASK);
            sum = choose_digit(ring, sum, m, k);
        } else {
            sum = add_column(sum, m, ring->n, h, k);
            out[k - h] = (word)sum & MASK;
            sum >>= BITS;
        }
    }
}

static void multiply(const struct ring *ring, word *out, const word *a, const word *b) {
    const size_t h = ring->digits;
    word *r = ring->scratch, *s = r + h, *m = s + h;
    first_part(ring, r, m, a, b, false);
    if (ring->parts == 2) {
        second_part(ring, s, m, a, b + h, a + h, b);
        memcpy(out + h, s, h * sizeof *out);
    }
    memcpy(out, r, h * sizeof *out);
}

static void square(const struct ring *ring, word *out, const word *a) {
    const size_t h = ring->digits;
    word *r = ring->scratch, *s = r + h, *m = s + h, *twice = m + h;
    first_part(ring, r, m, a, a, true);
    if (ring->parts == 2) {
        memcpy(twice, a + h, h * sizeof *twice);
        digits_double(twice, h, BITS, 0);
        second_part(ring, s, m, a, twice, NULL, NULL);
        memcpy(out + h, s, h * sizeof *out);
    }
    memcpy(out, r, h * sizeof *out);
}

static void reduce(const struct ring *ring, word *out, const word *wide) {
    const size_t h = ring->digits;
    word *m = ring->scratch;
    word2 sum = 0;
    for (size_t k = 0; k < 2 * h; k++) {
        sum += wide[k];
        if (k < h) {
            sum = choose_digit(ring, sum, m, k);
        } else {
            sum = add_column(sum, m, ring->n, h, k);
            out[k - h] = (word)sum & MASK;
            sum >>= BITS;
        }
    }
    if (ring->parts == 2)
        second_part(ring, out + h, m, NULL, NULL, NULL, NULL);
}

static void gather(size_t words, word *batch, const word *const *elements) {
    memcpy(batch, elements[0], words * sizeof *batch);
}

static void scatter(size_t words, word *const *elements, const word *batch) {
    memcpy(elements[0], batch, words * sizeof *batch);
}

static void select_batch(word *out, const word *table, size_t entries, size_t words, size_t index) {
    select_entry(out, table, entries, words, index);
}

const struct lanes scalar_lanes = {
    .count = 1, .bits = BITS, .granule = 1, .padding = 1, .scratch = 4,
    .multiply = multiply, .square = square, .reduce = reduce,
    .gather = gather, .scatter = scatter, .select = select_batch,
};
