/* Powers with one exponent by fixed windows, and powers of one base from tables. See powers.h.
 *
 * With a secret exponent every window squares as often, multiplies once, and reads all of its table: what is executed
 * and which memory is touched depends on the exponent's length alone. A public exponent picks its entry directly.
 */
#include "powers.h"

#include <string.h>

/* Reading all of a table costs about a quarter of a product per 8 entries, so that a secret exponent's is small. */
#define SECRET_WINDOW 4
#define LARGEST_WINDOW 7
#define BYTE_VALUES 256
/* Products that pass from when an element of a list is asked for to when it is read. */
#define AHEAD 5

static size_t windows_in(size_t bits, size_t window) { return (bits + window - 1) / window; }

/* The fewest products, of the table and of the windows. */
static size_t best_window(const struct exponent *exponent) {
    if (exponent->secret)
        return SECRET_WINDOW;
    size_t best = 1;
    for (size_t window = 2; window <= LARGEST_WINDOW; window++)
        if (((size_t)1 << window) + windows_in(exponent->bits, window)
            < ((size_t)1 << best) + windows_in(exponent->bits, best))
            best = window;
    return best;
}

/* Bits [place window, (place + 1) window) of an exponent. */
static size_t window_digit(const struct exponent *exponent, size_t place, size_t window) {
    size_t digit = 0;
    for (size_t bit = 0; bit < window; bit++) {
        const size_t at = place * window + bit;
        if (at < exponent->bits)
            digit |= (size_t)(exponent->bytes[at / 8] >> at % 8 & 1) << bit;
    }
    return digit;
}

/* The powers 0 ... 2**window - 1 of a batch, which stands at table[1] already. */
static void fill_powers(const struct ring *ring, word *table, size_t window) {
    const size_t size = batch_words(ring);
    memcpy(table, ring->one, size * sizeof *table);
    for (size_t i = 2; i < (size_t)1 << window; i++)
        ring->lanes->multiply(ring, table + i * size, table + (i - 1) * size, table + size);
}

static const word *entry(const struct ring *ring, const word *table, size_t window, size_t digit, word *chosen) {
    ring->lanes->select(chosen, table, (size_t)1 << window, batch_words(ring), digit);
    return chosen;
}

/* power = table[1]**exponent; `chosen` is workspace of one batch. */
static void raise_batch(
    const struct ring *ring, word *power, const word *table, size_t window, const struct exponent *exponent, word *chosen
) {
    const size_t size = batch_words(ring);
    size_t place = windows_in(exponent->bits, window);
    memcpy(power, ring->one, size * sizeof *power);
    while (place-- > 0) {
        const size_t digit = window_digit(exponent, place, window);
        const word *factor = table + digit * size;
        if (exponent->secret)
            factor = entry(ring, table, window, digit, chosen);
        for (size_t bit = 0; bit < window; bit++)
            ring->lanes->square(ring, power, power);
        ring->lanes->multiply(ring, power, power, factor);
    }
}

bool batch_powers(
    const struct ring *ring, uint8_t *out, const word *bases, size_t count, const struct exponent *exponent
) {
    const struct lanes *lanes = ring->lanes;
    const size_t window = best_window(exponent), size = batch_words(ring);
    struct pool pool = {0};
    word *table = pool_words(&pool, (size_t)1 << window, size), *power = pool_words(&pool, 2, size);
    bool done = !pool.failed;
    for (size_t start = 0; done && start < count; start += lanes->count) {
        const size_t left = count - start, used = left < lanes->count ? left : lanes->count;
        const word *sources[MOST_LANES];
        for (size_t lane = 0; lane < lanes->count; lane++)
            sources[lane] = bases + (start + (lane < used ? lane : 0)) * ring->words;
        lanes->gather(ring->words, table + size, sources);
        fill_powers(ring, table, window);
        raise_batch(ring, power, table, window, exponent, power + size);
        done = ring_export(ring, out + start * ring->width, power, used);
    }
    pool_release(&pool);
    return done;
}

void subset_products(
    const struct ring *ring, word *table, const word *elements, size_t count, word *batch, word *unused
) {
    const struct lanes *lanes = ring->lanes;
    const size_t words = ring->words;
    word *next = batch + batch_words(ring);
    for (size_t digit = 0; digit < words; digit++)
        table[digit] = ring->one[digit * lanes->count];
    for (size_t q = 0; q < count; q++) {
        const size_t half = (size_t)1 << q;
        const word *element = elements + q * words;
        memcpy(table + half * words, element, words * sizeof *table);
        ring_spread(ring, next, element);
        for (size_t i = 1; i < half; i += lanes->count) {
            const word *sources[MOST_LANES];
            word *targets[MOST_LANES];
            for (size_t lane = 0; lane < lanes->count; lane++) {
                const bool used = i + lane < half;
                sources[lane] = table + (used ? i + lane : 0) * words;
                targets[lane] = used ? table + (half + i + lane) * words : unused;
            }
            lanes->gather(words, batch, sources);
            lanes->multiply(ring, batch, batch, next);
            lanes->scatter(words, targets, batch);
        }
    }
}

/* Square the first element over and over: element i becomes its power 2**i. */
static void fill_squares(const struct ring *ring, word *squares, size_t count, word *batch, word *unused) {
    const struct lanes *lanes = ring->lanes;
    ring_spread(ring, batch, squares);
    for (size_t i = 1; i < count; i++) {
        word *targets[MOST_LANES];
        for (size_t lane = 0; lane < lanes->count; lane++)
            targets[lane] = lane == 0 ? squares + i * ring->words : unused;
        lanes->square(ring, batch, batch);
        lanes->scatter(ring->words, targets, batch);
    }
}

static bool fill_tables(struct fixed_bases *fixed, const uint8_t *residues) {
    const struct ring *ring = &fixed->ring;
    const size_t words = ring->words;
    struct pool pool = {0};
    word *squares = pool_words(&pool, 8, words), *unused = pool_words(&pool, 1, words);
    word *batch = pool_words(&pool, 2, batch_words(ring));
    bool done = !pool.failed;
    for (size_t k = 0; done && k < fixed->bases; k++) {
        done = ring_import(ring, squares, residues + k * ring->width, 1);
        fill_squares(ring, squares, 8, batch, unused);
        subset_products(ring, fixed->tables + k * BYTE_VALUES * words, squares, 8, batch, unused);
    }
    pool_release(&pool);
    return done;
}

bool fixed_bases_open(
    struct fixed_bases *fixed, const struct modulus *modulus, const uint8_t *residues, size_t bases
) {
    memset(fixed, 0, sizeof *fixed);
    fixed->bases = bases;
    bool done = ring_open(&fixed->ring, &fixed->pool, modulus);
    if (done) {
        fixed->tables = pool_words(&fixed->pool, bases * BYTE_VALUES, fixed->ring.words);
        done = fixed->tables != NULL && fill_tables(fixed, residues);
    }
    if (!done)
        pool_release(&fixed->pool);
    return done;
}

/* Ask for an element of a table that is read soon: the tables are larger than caches near the core. */
static void prefetch(const word *element, size_t words) {
    for (size_t at = 0; at < words; at += 64 / sizeof *element)
        __builtin_prefetch(element + at);
}

/* The first lanes of `power`: products of lists `start` to `start + used`, the others repeat the first of them. */
static void multiply_lists(
    const struct ring *ring, word *power, const word *elements, const struct lists *lists, size_t start, size_t used
) {
    const struct lanes *lanes = ring->lanes;
    const size_t words = ring->words;
    word *one = power + batch_words(ring), *factor = one + words;
    int64_t at[MOST_LANES], end[MOST_LANES], longest = 0;
    const word *sources[MOST_LANES];
    for (size_t lane = 0; lane < lanes->count; lane++) {
        const size_t list = start + (lane < used ? lane : 0);
        at[lane] = list == 0 ? 0 : lists->ends[list - 1];
        end[lane] = lists->ends[list];
        longest = end[lane] - at[lane] > longest ? end[lane] - at[lane] : longest;
    }
    memcpy(power, ring->one, batch_words(ring) * sizeof *power);
    for (; longest > 0; longest--) {
        for (size_t lane = 0; lane < lanes->count; lane++) {
            sources[lane] = at[lane] < end[lane] ? elements + (size_t)lists->order[at[lane]] * words : one;
            if (at[lane] + AHEAD < end[lane])
                prefetch(elements + (size_t)lists->order[at[lane] + AHEAD] * words, words);
            at[lane]++;
        }
        lanes->gather(words, factor, sources);
        lanes->multiply(ring, power, power, factor);
    }
}

bool list_products(const struct ring *ring, uint8_t *out, const word *elements, const struct lists *lists) {
    const size_t lanes = ring->lanes->count, words = ring->words;
    struct pool pool = {0};
    word *power = pool_words(&pool, 2 * batch_words(ring) + words, 1);
    bool done = power != NULL;
    for (size_t digit = 0; done && digit < words; digit++)
        power[batch_words(ring) + digit] = ring->one[digit * lanes];
    for (size_t start = 0; done && start < lists->count; start += lanes) {
        const size_t left = lists->count - start, used = left < lanes ? left : lanes;
        multiply_lists(ring, power, elements, lists, start, used);
        done = ring_export(ring, out + start * ring->width, power, used);
    }
    pool_release(&pool);
    return done;
}

/* Exponents on their way through lanes. Few of them have several lanes each, which share an exponent's bytes. */
struct shared_lanes {
    const uint8_t *const *exponents; /* of `apart` */
    size_t apart, share;             /* share * apart lanes; each works through `bytes` */
    size_t bytes;
};

/* What a lane multiplies next; beyond the last byte it is base_0**0. */
static const word *entry_of(const struct fixed_bases *fixed, const struct shared_lanes *shared, size_t lane, size_t k) {
    const size_t at = lane / shared->apart * shared->bytes + k;
    const size_t place = at < fixed->bases ? at * BYTE_VALUES + shared->exponents[lane % shared->apart][at] : 0;
    return fixed->tables + place * fixed->ring.words;
}

/* The products of one table entry per byte in the first lanes; `elements` is workspace of one for each lane. */
static void multiply_entries(
    const struct fixed_bases *fixed, const struct ring *ring, word *power, word *elements, const struct shared_lanes *shared
) {
    const struct lanes *lanes = ring->lanes;
    const size_t words = ring->words;
    word *factor = power + batch_words(ring), *targets[MOST_LANES];
    const word *sources[MOST_LANES];
    for (size_t k = 0; k < shared->bytes; k++) {
        for (size_t lane = 0; lane < lanes->count; lane++)
            sources[lane] = entry_of(fixed, shared, lane, k);
        for (size_t lane = 0; k + 1 < shared->bytes && lane < lanes->count; lane++)
            prefetch(entry_of(fixed, shared, lane, k + 1), words);
        lanes->gather(words, k == 0 ? power : factor, sources);
        if (k > 0)
            lanes->multiply(ring, power, power, factor);
    }
    for (size_t share = shared->share / 2; share > 0; share /= 2) {
        for (size_t lane = 0; lane < lanes->count; lane++) {
            targets[lane] = elements + lane * words;
            sources[lane] = elements + (lane + share * shared->apart) % lanes->count * words;
        }
        lanes->scatter(words, targets, power);
        lanes->gather(words, factor, sources);
        lanes->multiply(ring, power, power, factor);
    }
}

bool fixed_bases_powers(const struct fixed_bases *fixed, uint8_t *out, const uint8_t *exponents, size_t count) {
    struct pool pool = {0};
    struct ring ring;
    bool done = ring_share(&ring, &pool, &fixed->ring);
    const size_t lanes = ring.lanes->count;
    word *power = pool_words(&pool, 2, batch_words(&ring)), *elements = pool_words(&pool, lanes, ring.words);
    done = done && !pool.failed;
    for (size_t start = 0; done && start < count; start += lanes) {
        const size_t left = count - start, used = left < lanes ? left : lanes;
        const uint8_t *chosen[MOST_LANES];
        struct shared_lanes shared = {.exponents = chosen, .share = lanes};
        while (shared.share * used > lanes)
            shared.share /= 2;
        shared.apart = lanes / shared.share;
        shared.bytes = (fixed->bases + shared.share - 1) / shared.share;
        for (size_t i = 0; i < shared.apart; i++)
            chosen[i] = exponents + (start + (i < used ? i : 0)) * fixed->bases;
        multiply_entries(fixed, &ring, power, elements, &shared);
        done = ring_export(&ring, out + start * ring.width, power, used);
    }
    pool_release(&pool);
    return done;
}
