/* The kernel's own objects take their memory from here: it is counted, and runs out on demand. */
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

static long left = -1, blocks;

void *__real_aligned_alloc(size_t alignment, size_t size);
void *__real_malloc(size_t size);
void __real_free(void *given);

/* Tell whether there is still memory; below zero there always is. */
static int have(void) {
    if (left == 0)
        return 0;
    left -= left > 0;
    blocks++;
    return 1;
}

void *__wrap_aligned_alloc(size_t alignment, size_t size) { return have() ? __real_aligned_alloc(alignment, size) : NULL; }

void *__wrap_malloc(size_t size) { return have() ? __real_malloc(size) : NULL; }

void __wrap_free(void *given) {
    blocks -= given != NULL;
    __real_free(given);
}

/* From now on so many requests are met, then none; -1: all. */
EXPORT void set_requests_left(long count) { left = count; }

/* Blocks that were taken and not given back. */
EXPORT long blocks_kept(void) { return blocks; }
