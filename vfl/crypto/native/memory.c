/* See memory.h. */
#include "memory.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64

/* Stands before the words that it keeps, in the first ALIGNMENT bytes. */
struct block {
    struct block *next;
    size_t bytes;
};

void wipe(void *memory, size_t bytes) {
    memset(memory, 0, bytes);
    __asm__ __volatile__("" : : "r"(memory) : "memory");
}

word *pool_words(struct pool *pool, size_t count, size_t size) {
    const size_t most = (SIZE_MAX - 2 * ALIGNMENT) / sizeof(word);
    if (pool->failed || (size != 0 && count > most / size)) {
        pool->failed = true;
        return NULL;
    }
    size_t bytes = ALIGNMENT + (count * size * sizeof(word) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    struct block *block = aligned_alloc(ALIGNMENT, bytes);
    if (block == NULL) {
        pool->failed = true;
        return NULL;
    }
    memset(block, 0, bytes);
    block->next = pool->blocks;
    block->bytes = bytes;
    pool->blocks = block;
    return (word *)((char *)block + ALIGNMENT);
}

void pool_release(struct pool *pool) {
    while (pool->blocks != NULL) {
        struct block *block = pool->blocks;
        pool->blocks = block->next;
        wipe(block, block->bytes);
        free(block);
    }
}
