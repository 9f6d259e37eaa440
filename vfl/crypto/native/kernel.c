/* See kernel.h. */
#include "kernel.h"

#include <stdlib.h>

/* The columns of 8-lane products hold sums for fewer than 600 digits (ifma.c). */
#define MOST_ROOT_BITS 16384
/* Counts and widths: far beyond any use, and far below where a product of two could wrap. */
#define MOST_COUNT ((uint64_t)1 << 31)

#ifndef SOURCES
#error "SOURCES must be the digest of the sources, as vfl/crypto/native/build.py defines it."
#endif

const char *plumbline_sources(void) { return SOURCES; }

int plumbline_lanes(void) {
#ifdef WITH_IFMA
    /* Both look at what the operating system saves as well. */
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512ifma"))
        return 8;
#endif
    return 1;
}

static bool modulus_fits(const struct modulus *modulus) {
    return (modulus->lanes == 1 || (modulus->lanes == 8 && plumbline_lanes() == 8))
        && (modulus->parts == 1 || modulus->parts == 2) && modulus->root_bits >= 2
        && modulus->root_bits <= MOST_ROOT_BITS && (modulus->root[0] & 1) == 1
        && modulus->width >= (modulus->root_bits * modulus->parts - modulus->parts) / 8
        && modulus->width <= (modulus->root_bits * modulus->parts + 7) / 8;
}

static bool task_fits(const struct task *task) {
    return task->blocks >= 1 && task->blocks < MOST_COUNT && task->rows >= 1 && task->rows < MOST_COUNT
        && task->columns >= 1 && task->columns < MOST_COUNT
        && task->answers >= 1 && task->answers <= task->columns && task->group_size >= 1
        && task->group_size <= LARGEST_GROUP && task->corrections <= task->columns;
}

static int result(bool done) { return done ? DONE : NO_MEMORY; }

/* Read residues into memory of the pool; NULL without memory. */
static word *elements_of(const struct ring *ring, struct pool *pool, const uint8_t *residues, size_t count) {
    word *elements = pool_words(pool, count, ring->words);
    return elements != NULL && ring_import(ring, elements, residues, count) ? elements : NULL;
}

int plumbline_total(const struct modulus *modulus, const uint8_t *residues, uint64_t count, uint8_t *out) {
    if (!modulus_fits(modulus) || count >= MOST_COUNT)
        return WRONG_SIZE;
    struct pool pool = {0};
    struct ring ring;
    bool done = ring_open(&ring, &pool, modulus);
    const word *elements = done ? elements_of(&ring, &pool, residues, count) : NULL;
    word *total = done ? pool_words(&pool, 1, batch_words(&ring)) : NULL;
    done = elements != NULL && total != NULL && ring_total(&ring, total, elements, count)
        && ring_export(&ring, out, total, 1);
    pool_release(&pool);
    return result(done);
}

int plumbline_product(
    const struct modulus *modulus, const uint8_t *ciphertexts, const struct task *task, uint8_t *out
) {
    if (!modulus_fits(modulus) || !task_fits(task))
        return WRONG_SIZE;
    struct pool pool = {0};
    struct ring ring;
    bool done = ring_open(&ring, &pool, modulus) && encrypted_product(&ring, out, ciphertexts, task);
    pool_release(&pool);
    return result(done);
}

int plumbline_powers(
    const struct modulus *modulus, const uint8_t *bases, uint64_t count, const uint8_t *exponent,
    uint64_t exponent_bits, int secret, uint8_t *out
) {
    if (!modulus_fits(modulus) || count >= MOST_COUNT || exponent_bits >= MOST_COUNT)
        return WRONG_SIZE;
    const struct exponent power = {.bytes = exponent, .bits = exponent_bits, .secret = secret != 0};
    struct pool pool = {0};
    struct ring ring;
    bool done = ring_open(&ring, &pool, modulus);
    const word *elements = done ? elements_of(&ring, &pool, bases, count) : NULL;
    done = elements != NULL && batch_powers(&ring, out, elements, count, &power);
    pool_release(&pool);
    return result(done);
}

int plumbline_lists(
    const struct modulus *modulus, const uint8_t *residues, uint64_t residues_count, const int64_t *order,
    const int64_t *ends, uint64_t count, uint8_t *out
) {
    if (!modulus_fits(modulus) || residues_count >= MOST_COUNT || count >= MOST_COUNT)
        return WRONG_SIZE;
    const struct lists lists = {.order = order, .ends = ends, .count = count};
    struct pool pool = {0};
    struct ring ring;
    bool done = ring_open(&ring, &pool, modulus);
    const word *elements = done ? elements_of(&ring, &pool, residues, residues_count) : NULL;
    done = elements != NULL && list_products(&ring, out, elements, &lists);
    pool_release(&pool);
    return result(done);
}

int plumbline_fixed_open(
    const struct modulus *modulus, const uint8_t *bases, uint64_t count, struct fixed_bases **fixed
) {
    if (!modulus_fits(modulus) || count < 1 || count >= MOST_COUNT)
        return WRONG_SIZE;
    struct fixed_bases *opened = malloc(sizeof *opened);
    if (opened == NULL)
        return NO_MEMORY;
    if (!fixed_bases_open(opened, modulus, bases, count)) {
        free(opened);
        return NO_MEMORY;
    }
    *fixed = opened;
    return DONE;
}

int plumbline_fixed_powers(const struct fixed_bases *fixed, const uint8_t *exponents, uint64_t count, uint8_t *out) {
    if (count >= MOST_COUNT)
        return WRONG_SIZE;
    return result(fixed_bases_powers(fixed, out, exponents, count));
}

void plumbline_fixed_close(struct fixed_bases *fixed) {
    pool_release(&fixed->pool);
    wipe(fixed, sizeof *fixed);
    free(fixed);
}
