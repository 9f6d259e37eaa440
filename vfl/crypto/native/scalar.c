/* One lane of 64-bit limbs, for every processor whose compiler has unsigned __int128.
 *
 * Products and reductions go row by row: a row adds up to three multiples of h limbs, each with its own carry, and
 * drops the lowest limb, which has become zero. Between rows a value is below R (the bounds in ring.h hold for partial
 * sums as well), so that a row's carries add up without overflow.
 */
#include "ring.h"
#include "select.h"

#include <string.h>

/* t = (t + top R + x y) / 2**64 */
static inline void row_of_one(word *t, size_t h, word top, word x, const word *y) {
    word2 sum = (word2)x * y[0] + t[0];
    word carry = (word)(sum >> 64);
    for (size_t j = 1; j < h; j++) {
        sum = (word2)x * y[j] + t[j] + carry;
        t[j - 1] = (word)sum;
        carry = (word)(sum >> 64);
    }
    t[h - 1] = top + carry;
}

/* t = (t + top R + x y + u v) / 2**64 */
static inline void row_of_two(word *t, size_t h, word top, word x, const word *y, word u, const word *v) {
    word2 sum = (word2)x * y[0] + t[0];
    word carry = (word)(sum >> 64);
    sum = (word2)u * v[0] + (word)sum;
    word carry2 = (word)(sum >> 64);
    for (size_t j = 1; j < h; j++) {
        sum = (word2)x * y[j] + t[j] + carry;
        carry = (word)(sum >> 64);
        sum = (word2)u * v[j] + (word)sum + carry2;
        carry2 = (word)(sum >> 64);
        t[j - 1] = (word)sum;
    }
    t[h - 1] = top + carry + carry2;
}

/* The first half of a product, r = (a b + m n) / R; m's limbs are kept. */
static void first_part(const struct ring *ring, word *r, word *m, const word *a, const word *b) {
    const size_t h = ring->digits;
    memset(r, 0, h * sizeof *r);
    for (size_t i = 0; i < h; i++) {
        m[i] = (r[0] + a[i] * b[0]) * ring->inverse;
        row_of_two(r, h, 0, a[i], b, m[i], ring->n);
    }
}

/* t = R - 1 - m + c, and what is above R of it. */
static word begin_second_part(const struct ring *ring, word *t, const word *m) {
    word carry = 0;
    for (size_t i = 0; i < ring->digits; i++) {
        word2 sum = (word2)~m[i] + ring->complement[i] + carry;
        t[i] = (word)sum;
        carry = (word)(sum >> 64);
    }
    return carry;
}

static void multiply(const struct ring *ring, word *out, const word *a, const word *b) {
    const size_t h = ring->digits;
    word *r = ring->scratch, *m = r + h, *t = m + h;
    first_part(ring, r, m, a, b);
    if (ring->parts == 2) {
        word top = begin_second_part(ring, t, m);
        for (size_t i = 0; i < h; i++, top = 0) {
            /* Two rows, each of which would drop its limb: the products of the first are added in place. */
            word2 sum = 0;
            word carry = 0;
            for (size_t j = 0; j < h; j++) {
                sum = (word2)a[i] * b[h + j] + t[j] + carry;
                t[j] = (word)sum;
                carry = (word)(sum >> 64);
            }
            const word quotient = (t[0] + a[h + i] * b[0]) * ring->inverse;
            row_of_two(t, h, top + carry, a[h + i], b, quotient, ring->n);
        }
        memcpy(out + h, t, h * sizeof *out);
    }
    memcpy(out, r, h * sizeof *out);
}

static void square(const struct ring *ring, word *out, const word *a) {
    const size_t h = ring->digits;
    word *r = ring->scratch, *m = r + h, *t = m + h, *twice = t + h;
    first_part(ring, r, m, a, a);
    if (ring->parts == 2) {
        memcpy(twice, a + h, h * sizeof *twice);
        digits_double(twice, h, 64, 0);
        word top = begin_second_part(ring, t, m);
        for (size_t i = 0; i < h; i++, top = 0) {
            const word quotient = (t[0] + a[i] * twice[0]) * ring->inverse;
            row_of_two(t, h, top, a[i], twice, quotient, ring->n);
        }
        memcpy(out + h, t, h * sizeof *out);
    }
    memcpy(out, r, h * sizeof *out);
}

static void reduce(const struct ring *ring, word *out, const word *wide) {
    const size_t h = ring->digits;
    word *r = ring->scratch, *m = r + h, *t = m + h;
    memcpy(r, wide, h * sizeof *r);
    for (size_t i = 0; i < h; i++) {
        m[i] = r[0] * ring->inverse;
        row_of_one(r, h, 0, m[i], ring->n);
    }
    word carry = 0;
    for (size_t i = 0; i < h; i++) {
        word2 sum = (word2)r[i] + wide[h + i] + carry;
        out[i] = (word)sum;
        carry = (word)(sum >> 64);
    }
    if (ring->parts == 2) {
        word top = begin_second_part(ring, t, m);
        for (size_t i = 0; i < h; i++, top = 0)
            row_of_one(t, h, top, t[0] * ring->inverse, ring->n);
        memcpy(out + h, t, h * sizeof *out);
    }
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
    .count = 1, .bits = 64, .granule = 1, .padding = 1, .scratch = 4,
    .multiply = multiply, .square = square, .reduce = reduce,
    .gather = gather, .scatter = scatter, .select = select_batch,
};
