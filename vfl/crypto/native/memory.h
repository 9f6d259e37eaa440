/* Memory that is wiped before it is given back: nothing that was computed with a secret stays behind.
 *
 * A call takes all its memory from one pool and releases the pool at its end. Once something can't be had, everything
 * after is NULL as well, so that a caller checks once.
 */
#ifndef PLUMBLINE_MEMORY_H
#define PLUMBLINE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t word;

struct block;

struct pool {
    struct block *blocks;
    bool failed;
};

/* count * size words, zero, aligned to 64 bytes; NULL where there is no memory, now or before. */
word *pool_words(struct pool *pool, size_t count, size_t size);

/* Wipe and free all that was taken. */
void pool_release(struct pool *pool);

/* Overwrite with zeros; the compiler can't leave it out. */
void wipe(void *memory, size_t bytes);

#endif
