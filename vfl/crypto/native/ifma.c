/* Eight lanes of 52-bit digits: AVX-512 with IFMA, whose instructions add the low or the high 52 bits of eight products.
 *
 * A product's columns are summed without carries: at most 6 h summands below 2**52 meet in one, so that 64 bits do for
 * h < 600. Work goes in blocks of eight (at the end four) rows by four columns, whose sums stay in registers.
 */
#include "ring.h"
#include "select.h"

#include <immintrin.h>
#include <string.h>

typedef __m512i vector;

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")
#define COLUMNS 4

INLINE vector low(vector sum, vector x, vector y) { return _mm512_madd52lo_epu64(sum, x, y); }

INLINE vector high(vector sum, vector x, vector y) { return _mm512_madd52hi_epu64(sum, x, y); }

/* t[0 .. columns + rows) += x[0 .. rows) * y[0 .. columns) */
INLINE void add_rows(vector *t, const vector *x, const vector *y, size_t columns, const int rows) {
    vector row[8], sum[8 + COLUMNS];
    UNROLL for (int k = 0; k < rows; k++) {
        row[k] = x[k];
        sum[k] = t[k];
    }
    for (size_t column = 0; column < columns; column += COLUMNS, t += COLUMNS, y += COLUMNS) {
        UNROLL for (int k = 0; k < COLUMNS; k++) sum[rows + k] = t[rows + k];
        UNROLL for (int j = 0; j < COLUMNS; j++) {
            const vector digit = y[j];
            UNROLL for (int k = 0; k < rows; k++) sum[j + k] = low(sum[j + k], row[k], digit);
            UNROLL for (int k = 0; k < rows; k++) sum[j + k + 1] = high(sum[j + k + 1], row[k], digit);
        }
        UNROLL for (int k = 0; k < COLUMNS; k++) t[k] = sum[k];
        UNROLL for (int k = 0; k < rows; k++) sum[k] = sum[k + COLUMNS];
    }
    UNROLL for (int k = 0; k < rows; k++) t[k] = sum[k];
}

/* t[0 .. 2 h) += a b */
static void add_product(vector *t, const vector *a, const vector *b, size_t h) {
    size_t i = 0;
    for (; i + 8 <= h; i += 8)
        add_rows(t + i, a + i, b, h, 8);
    if (i < h)
        add_rows(t + i, a + i, b, h, 4);
}

/* The next `rows` digits m of the quotient, and their multiples of the lowest `rows` digits of n. */
INLINE void add_quotient(vector *t, vector *m, const vector *n, vector inverse, const int rows) {
    const vector zero = _mm512_setzero_si512(), mask = _mm512_set1_epi64((long long)digit_mask(52));
    vector sum[16];
    UNROLL for (int k = 0; k < 2 * rows; k++) sum[k] = t[k];
    UNROLL for (int k = 0; k < rows; k++) {
        const vector digit = low(zero, sum[k], inverse);
        m[k] = digit;
        /* The lowest 52 bits become zero: they carry one if they aren't. */
        sum[k + 1] = _mm512_add_epi64(sum[k + 1], _mm512_srli_epi64(_mm512_add_epi64(sum[k], mask), 52));
        /* On its own, because the next digit waits for it. */
        const vector above = high(zero, digit, n[0]);
        UNROLL for (int j = 1; j < rows; j++) sum[k + j] = low(sum[k + j], digit, n[j]);
        sum[k + 1] = _mm512_add_epi64(sum[k + 1], above);
        UNROLL for (int j = 1; j < rows; j++) sum[k + j + 1] = high(sum[k + j + 1], digit, n[j]);
    }
    UNROLL for (int k = rows; k < 2 * rows; k++) t[k] = sum[k];
}

/* Make t divisible by R: t += m n. Then t / R are the columns from h on. */
static void add_multiple(vector *t, vector *m, const vector *n, vector inverse, size_t h) {
    size_t i = 0;
    for (; i + 8 <= h; i += 8) {
        add_quotient(t + i, m + i, n, inverse, 8);
        add_rows(t + i + 8, m + i, n + 8, h - 8, 8);
    }
    if (i < h) {
        add_quotient(t + i, m + i, n, inverse, 4);
        add_rows(t + i + 4, m + i, n + 4, h - 4, 4);
    }
}

/* Columns to digits. */
static void carry_through(vector *digits, const vector *columns, size_t h) {
    const vector mask = _mm512_set1_epi64((long long)digit_mask(52));
    vector carry = _mm512_setzero_si512();
    for (size_t i = 0; i < h; i++) {
        const vector sum = _mm512_add_epi64(columns[i], carry);
        digits[i] = _mm512_and_si512(sum, mask);
        carry = _mm512_srli_epi64(sum, 52);
    }
}

/* 2 a, with carries. */
static void twice(vector *out, const vector *a, size_t h) {
    for (size_t i = 0; i < h; i++)
        out[i] = _mm512_add_epi64(a[i], a[i]);
    carry_through(out, out, h);
}

/* t[0 .. 2 h) += a a, with `doubled` = 2 a: what stands beside the diagonal counts twice. */
static void add_square(vector *t, const vector *a, vector *doubled, size_t h) {
    size_t i = 0;
    for (; i < h; i += 8) {
        const size_t rows = i + 8 <= h ? 8 : 4;
        memcpy(doubled + i, a + i, rows * sizeof *a);
        if (i + rows < h) /* The lowest bit came from the digits below, which the block has itself. */
            doubled[i + rows] = _mm512_andnot_si512(_mm512_set1_epi64(1), doubled[i + rows]);
        if (rows == 8)
            add_rows(t + 2 * i, a + i, doubled + i, h - i, 8);
        else
            add_rows(t + 2 * i, a + i, doubled + i, h - i, 4);
    }
}

static void clear(vector *t, size_t count) { memset(t, 0, count * sizeof *t); }

/* t = R - 1 - m + c */
static void begin_second_part(const struct ring *ring, vector *t, const vector *m) {
    const vector mask = _mm512_set1_epi64((long long)digit_mask(52));
    const vector *complement = (const vector *)ring->complement;
    for (size_t i = 0; i < ring->digits; i++)
        t[i] = _mm512_add_epi64(complement[i], _mm512_xor_si512(m[i], mask));
    clear(t + ring->digits, ring->digits);
}

static vector inverse_of(const struct ring *ring) { return _mm512_set1_epi64((long long)ring->inverse); }

static void multiply(const struct ring *ring, word *out_words, const word *a_words, const word *b_words) {
    const size_t h = ring->digits;
    const vector *a = (const vector *)a_words, *b = (const vector *)b_words, *n = (const vector *)ring->n_batch;
    vector *out = (vector *)out_words, *t = (vector *)ring->scratch, *m = t + 2 * h, *r = m + h;
    clear(t, 2 * h);
    add_product(t, a, b, h);
    add_multiple(t, m, n, inverse_of(ring), h);
    carry_through(r, t + h, h);
    if (ring->parts == 2) {
        begin_second_part(ring, t, m);
        add_product(t, a, b + h, h);
        add_product(t, a + h, b, h);
        add_multiple(t, m, n, inverse_of(ring), h);
        carry_through(out + h, t + h, h);
    }
    memcpy(out, r, h * sizeof *out);
}

static void square(const struct ring *ring, word *out_words, const word *a_words) {
    const size_t h = ring->digits;
    const vector *a = (const vector *)a_words, *n = (const vector *)ring->n_batch;
    vector *out = (vector *)out_words, *t = (vector *)ring->scratch, *m = t + 2 * h, *r = m + h, *doubled = r + h;
    clear(t, 2 * h);
    twice(doubled, a, h);
    add_square(t, a, doubled, h);
    add_multiple(t, m, n, inverse_of(ring), h);
    carry_through(r, t + h, h);
    if (ring->parts == 2) {
        begin_second_part(ring, t, m);
        twice(doubled, a + h, h);
        add_product(t, a, doubled, h);
        add_multiple(t, m, n, inverse_of(ring), h);
        carry_through(out + h, t + h, h);
    }
    memcpy(out, r, h * sizeof *out);
}

static void reduce(const struct ring *ring, word *out_words, const word *wide) {
    const size_t h = ring->digits;
    const vector *n = (const vector *)ring->n_batch;
    vector *out = (vector *)out_words, *t = (vector *)ring->scratch, *m = t + 2 * h;
    memcpy(t, wide, 2 * h * sizeof *t);
    add_multiple(t, m, n, inverse_of(ring), h);
    carry_through(out, t + h, h);
    if (ring->parts == 2) {
        begin_second_part(ring, t, m);
        add_multiple(t, m, n, inverse_of(ring), h);
        carry_through(out + h, t + h, h);
    }
}

/* Exchange rows and columns of 8 x 8 words. */
INLINE void transpose(vector *x) {
    vector pairs[8], fours[8];
    UNROLL for (int i = 0; i < 8; i += 2) {
        pairs[i] = _mm512_unpacklo_epi64(x[i], x[i + 1]);
        pairs[i + 1] = _mm512_unpackhi_epi64(x[i], x[i + 1]);
    }
    UNROLL for (int i = 0; i < 8; i += 4) {
        UNROLL for (int odd = 0; odd < 2; odd++) {
            fours[i + odd] = _mm512_shuffle_i64x2(pairs[i + odd], pairs[i + 2 + odd], 0x88);
            fours[i + 2 + odd] = _mm512_shuffle_i64x2(pairs[i + odd], pairs[i + 2 + odd], 0xdd);
        }
    }
    UNROLL for (int i = 0; i < 2; i++) {
        x[i] = _mm512_shuffle_i64x2(fours[i], fours[4 + i], 0x88);
        x[4 + i] = _mm512_shuffle_i64x2(fours[i], fours[4 + i], 0xdd);
        x[2 + i] = _mm512_shuffle_i64x2(fours[2 + i], fours[6 + i], 0x88);
        x[6 + i] = _mm512_shuffle_i64x2(fours[2 + i], fours[6 + i], 0xdd);
    }
}

static void gather(size_t words, word *batch, const word *const *elements) {
    for (size_t at = 0; at < words; at += 8) {
        vector x[8];
        UNROLL for (int lane = 0; lane < 8; lane++) x[lane] = _mm512_load_si512(elements[lane] + at);
        transpose(x);
        UNROLL for (int digit = 0; digit < 8; digit++) _mm512_store_si512(batch + 8 * (at + (size_t)digit), x[digit]);
    }
}

static void scatter(size_t words, word *const *elements, const word *batch) {
    for (size_t at = 0; at < words; at += 8) {
        vector x[8];
        UNROLL for (int digit = 0; digit < 8; digit++) x[digit] = _mm512_load_si512(batch + 8 * (at + (size_t)digit));
        transpose(x);
        UNROLL for (int lane = 0; lane < 8; lane++) _mm512_store_si512(elements[lane] + at, x[lane]);
    }
}

static void select_batch(word *out, const word *table, size_t entries, size_t words, size_t index) {
    select_entry(out, table, entries, words, index);
}

const struct lanes ifma_lanes = {
    .count = 8, .bits = 52, .granule = 4, .padding = 8, .scratch = 5,
    .multiply = multiply, .square = square, .reduce = reduce,
    .gather = gather, .scatter = scatter, .select = select_batch,
};
