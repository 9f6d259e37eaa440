/* See product.h.
 *
 * Every binary digit of every column, a digit column, has a sum of its own: the product of the ciphertexts whose row has
 * that digit. The rows go in groups; a group's digits select among the 2**size products of its ciphertexts. Lanes hold
 * digit columns of one block; then, for Horner's rule, answers of all blocks.
 * Sums that are empty are multiplied like others: how many products there are doesn't depend on entries, but which
 * entries of a table are read does.
 */
#include "product.h"

#include "powers.h"

#include <string.h>

/* What a product needs from beginning to end. */
struct work {
    const struct ring *ring;
    const struct task *task;
    size_t digit_columns;
    size_t batches;     /* of a block's digit columns; the last may be filled up */
    word *ciphertexts;  /* elements */
    word *corrections;  /* elements */
    word *all_sums;     /* of all blocks */
    word *sums;         /* batches of the block's digit columns; later elements */
    word *table;        /* elements */
    word *one, *unused; /* an element */
    word *batch;        /* two batches */
    uint16_t *indices;  /* (batches * lanes,): which of a group's rows have a digit */
    int64_t *first;     /* (columns,): a column's lowest digit column */
};

static size_t count_digits(const struct task *task) {
    size_t digits = 0;
    for (size_t j = 0; j < task->columns; j++)
        digits += (size_t)task->digits[j];
    return digits;
}

static bool take_memory(struct work *work, struct pool *pool) {
    const struct ring *ring = work->ring;
    const size_t lanes = ring->lanes->count, words = ring->words;
    work->digit_columns = count_digits(work->task);
    work->batches = (work->digit_columns + lanes - 1) / lanes;
    work->ciphertexts = pool_words(pool, work->task->blocks * work->task->rows, words);
    work->corrections = pool_words(pool, work->task->blocks * work->task->corrections, words);
    work->all_sums = pool_words(pool, work->task->blocks * work->batches * lanes, words);
    work->table = pool_words(pool, (size_t)1 << work->task->group_size, words);
    work->one = pool_words(pool, 2, words);
    work->unused = work->one + words;
    work->batch = pool_words(pool, 2, batch_words(ring));
    work->indices = (uint16_t *)pool_words(pool, work->batches, lanes);
    work->first = (int64_t *)pool_words(pool, work->task->columns, 1);
    return !pool->failed;
}

/* Bit q of index (j, k) is digit k of the group's row q in column j. */
static void set_indices(struct work *work, size_t start, size_t size) {
    const struct task *task = work->task;
    memset(work->indices, 0, work->batches * work->ring->lanes->count * sizeof *work->indices);
    for (size_t q = 0; q < size; q++) {
        const int64_t *row = task->entries + (start + q) * task->columns;
        uint16_t *index = work->indices;
        for (size_t j = 0; j < task->columns; j++) {
            const uint64_t entry = (uint64_t)row[j];
            const size_t digits = (size_t)task->digits[j];
            for (size_t k = 0; k < digits; k++)
                index[k] |= (uint16_t)((entry >> k & 1) << q);
            index += digits;
        }
    }
}

/* Multiply every digit column by what its group selects; the first group begins them. */
static void add_group(struct work *work, bool begin) {
    const struct lanes *lanes = work->ring->lanes;
    const size_t words = work->ring->words, size = batch_words(work->ring);
    for (size_t b = 0; b < work->batches; b++) {
        const word *sources[MOST_LANES];
        word *sum = work->sums + b * size;
        for (size_t lane = 0; lane < lanes->count; lane++)
            sources[lane] = work->table + work->indices[b * lanes->count + lane] * words;
        lanes->gather(words, begin ? sum : work->batch, sources);
        if (!begin)
            lanes->multiply(work->ring, sum, sum, work->batch);
    }
}

/* Groups of nearly equal sizes: the largest table decides. */
static void sum_digits(struct work *work, const word *ciphertexts) {
    const size_t rows = work->task->rows;
    const size_t groups = (rows + work->task->group_size - 1) / work->task->group_size;
    for (size_t g = 0, start = 0; g < groups; g++) {
        const size_t size = (rows - start + groups - g - 1) / (groups - g);
        subset_products(
            work->ring, work->table, ciphertexts + start * work->ring->words, size, work->batch, work->unused
        );
        set_indices(work, start, size);
        add_group(work, g == 0);
        start += size;
    }
}

/* Turn batches into elements, in place: both take as many words. */
static void take_apart(struct work *work) {
    const struct lanes *lanes = work->ring->lanes;
    const size_t words = work->ring->words, size = batch_words(work->ring);
    for (size_t b = 0; b < work->batches; b++) {
        word *sum = work->sums + b * size, *targets[MOST_LANES];
        for (size_t lane = 0; lane < lanes->count; lane++)
            targets[lane] = sum + lane * words;
        memcpy(work->batch, sum, size * sizeof *sum);
        lanes->scatter(words, targets, work->batch);
    }
}

/* Multiply a column's lowest digit by its correction. */
static void correct(struct work *work, const word *corrections) {
    const struct task *task = work->task;
    const struct lanes *lanes = work->ring->lanes;
    const size_t words = work->ring->words;
    for (size_t start = 0; start < task->columns; start += lanes->count) {
        const word *sums[MOST_LANES], *factors[MOST_LANES];
        word *targets[MOST_LANES];
        for (size_t lane = 0; lane < lanes->count; lane++) {
            const size_t j = start + lane;
            const bool used = j < task->columns;
            targets[lane] = used ? work->sums + (size_t)work->first[j] * words : work->unused;
            sums[lane] = used ? targets[lane] : work->one;
            factors[lane] = used && task->correction[j] >= 0
                ? corrections + (size_t)task->correction[j] * words : work->one;
        }
        lanes->gather(words, work->batch, sums);
        lanes->gather(words, work->batch + batch_words(work->ring), factors);
        lanes->multiply(work->ring, work->batch, work->batch, work->batch + batch_words(work->ring));
        lanes->scatter(words, targets, work->batch);
    }
}

/* The columns of one answer, worked through from the highest bit. */
struct answer {
    const word *sums; /* of its block */
    size_t first, next; /* columns: where it begins, and after the one whose turn it is; next == first: done */
};

/* The digit column that stands at a bit of an answer; -1: none. Bits come in descending order. */
static int64_t digit_at(const struct work *work, struct answer *answer, int64_t bit) {
    const struct task *task = work->task;
    while (answer->next > answer->first && task->shifts[answer->next - 1] > bit)
        answer->next--;
    if (answer->next == answer->first)
        return -1;
    const int64_t digit = bit - task->shifts[answer->next - 1];
    return digit < task->digits[answer->next - 1] ? work->first[answer->next - 1] + digit : -1;
}

/* Horner's rule on up to `lanes` answers: square for every bit, multiply where an answer has a digit. */
static void horner(struct work *work, struct answer *answers, size_t used, int64_t bits) {
    const struct ring *ring = work->ring;
    const size_t words = ring->words;
    word *value = work->batch, *factor = value + batch_words(ring);
    memcpy(value, ring->one, batch_words(ring) * sizeof *value);
    for (int64_t bit = bits - 1; bit >= 0; bit--) {
        const word *sources[MOST_LANES];
        bool any = false;
        for (size_t lane = 0; lane < ring->lanes->count; lane++) {
            const int64_t digit = lane < used ? digit_at(work, &answers[lane], bit) : -1;
            any = any || digit >= 0;
            sources[lane] = digit >= 0 ? answers[lane].sums + (size_t)digit * words : work->one;
        }
        if (bit < bits - 1)
            ring->lanes->square(ring, value, value);
        if (any) {
            ring->lanes->gather(words, factor, sources);
            ring->lanes->multiply(ring, value, value, factor);
        }
    }
}

/* Find the columns of the next answer; gives the bits that it takes. */
static int64_t next_answer(const struct task *task, struct answer *answer, const word *sums, size_t column) {
    answer->sums = sums;
    answer->first = column;
    while (column < task->columns && task->answer[column] == task->answer[answer->first])
        column++;
    answer->next = column;
    return task->shifts[column - 1] + task->digits[column - 1];
}

static bool pack(struct work *work, uint8_t *out) {
    const size_t lanes = work->ring->lanes->count, answers_of_all = work->task->blocks * work->task->answers;
    const word *sums = work->all_sums;
    bool done = true;
    for (size_t start = 0, column = 0; done && start < answers_of_all; start += lanes) {
        const size_t left = answers_of_all - start, used = left < lanes ? left : lanes;
        struct answer answers[MOST_LANES];
        int64_t most = 0;
        for (size_t lane = 0; lane < used; lane++) {
            const int64_t bits = next_answer(work->task, &answers[lane], sums, column);
            column = answers[lane].next;
            if (column == work->task->columns) {
                column = 0;
                sums += work->batches * batch_words(work->ring);
            }
            most = bits > most ? bits : most;
        }
        horner(work, answers, used, most);
        done = ring_export(work->ring, out + start * work->ring->width, work->batch, used);
    }
    return done;
}

static void begin(struct work *work) {
    const size_t lanes = work->ring->lanes->count;
    int64_t first = 0;
    for (size_t j = 0; j < work->task->columns; j++) {
        work->first[j] = first;
        first += work->task->digits[j];
    }
    for (size_t digit = 0; digit < work->ring->words; digit++)
        work->one[digit] = work->ring->one[digit * lanes];
}

bool encrypted_product(const struct ring *ring, uint8_t *out, const uint8_t *ciphertexts, const struct task *task) {
    struct pool pool = {0};
    struct work work = {.ring = ring, .task = task};
    bool done = take_memory(&work, &pool) && ring_import(ring, work.ciphertexts, ciphertexts, task->blocks * task->rows)
        && ring_import(ring, work.corrections, task->correction_bytes, task->blocks * task->corrections);
    if (done) {
        begin(&work);
        for (size_t block = 0; block < task->blocks; block++) {
            work.sums = work.all_sums + block * work.batches * batch_words(ring);
            sum_digits(&work, work.ciphertexts + block * task->rows * ring->words);
            take_apart(&work);
            if (task->corrections > 0)
                correct(&work, work.corrections + block * task->corrections * ring->words);
        }
        done = pack(&work, out);
    }
    pool_release(&pool);
    return done;
}
