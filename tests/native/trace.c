/* Which blocks of the kernel are executed and which memory they touch, as two hashes.
 *
 * The kernel's own objects are compiled with -fsanitize=thread, which calls __tsan_read8 and its like for every access,
 * and with -fsanitize-coverage=trace-pc, which calls __sanitizer_cov_trace_pc in every block. Both libraries are replaced
 * by what stands here. Memory comes from one arena that every call begins anew, and inputs are copied to fixed places, so
 * that equal work has equal addresses; those on the stack count from the call's frame.
 */
#include "kernel.h"

#include <string.h>

#define ARENA ((size_t)64 << 20)
#define INPUT ((size_t)1 << 20)
#define STACK ((uintptr_t)1 << 22)

static _Alignas(64) char arena[ARENA], inputs[4][INPUT];
static size_t taken;
static uintptr_t frame;
static bool tracing;
static uint64_t accesses, blocks;

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x100000001b3;
    return hash ^ hash >> 29;
}

static void touch(const volatile void *at, uint64_t how) {
    const uintptr_t address = (uintptr_t)at, below = frame - address;
    if (tracing)
        accesses = mix(mix(accesses, below < STACK ? below : address), how);
}

void __sanitizer_cov_trace_pc(void) {
    if (tracing)
        blocks = mix(blocks, (uint64_t)(uintptr_t)__builtin_return_address(0));
}

#define ACCESS(size)                                                                        \
    void __tsan_read##size(void *at) { touch(at, size); }                                   \
    void __tsan_write##size(void *at) { touch(at, 256 + size); }                            \
    void __tsan_unaligned_read##size(void *at) { touch(at, size); }                         \
    void __tsan_unaligned_write##size(void *at) { touch(at, 256 + size); }                  \
    void __tsan_volatile_read##size(void *at) { touch(at, size); }                          \
    void __tsan_volatile_write##size(void *at) { touch(at, 256 + size); }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)

void __tsan_read_range(void *at, size_t size) { touch(at, size); }
void __tsan_write_range(void *at, size_t size) { touch(at, ((uint64_t)1 << 32) + size); }
void __tsan_func_entry(void *from) { (void)from; }
void __tsan_func_exit(void) {}
void __tsan_init(void) {}

void *__real_memcpy(void *to, const void *from, size_t size);
void *__wrap_memcpy(void *to, const void *from, size_t size) {
    touch(to, size);
    touch(from, size);
    return __real_memcpy(to, from, size);
}

void *__real_memset(void *to, int value, size_t size);
void *__wrap_memset(void *to, int value, size_t size) {
    touch(to, size);
    return __real_memset(to, value, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    char *given = arena + taken;
    taken += (size + alignment - 1) / alignment * alignment;
    return taken <= ARENA ? given : NULL;
}

void __wrap_free(void *given) { (void)given; }

static const uint8_t *place(int which, const void *from, size_t size) {
    return size <= INPUT ? __real_memcpy(inputs[which], from, size) : NULL;
}

static void begin(void *at) {
    frame = (uintptr_t)at;
    taken = 0;
    accesses = blocks = 0xcbf29ce484222325;
    tracing = true;
}

static void end(uint64_t *hashes) {
    tracing = false;
    hashes[0] = blocks;
    hashes[1] = accesses;
}

/* plumbline_powers, and the hashes of its blocks and accesses. */
EXPORT int trace_powers(
    struct modulus modulus, const uint8_t *bases, uint64_t count, const uint8_t *exponent, uint64_t bits, int secret,
    uint64_t *hashes
) {
    modulus.root = place(0, modulus.root, (modulus.root_bits + 7) / 8);
    bases = place(1, bases, count * modulus.width);
    exponent = place(2, exponent, (bits + 7) / 8);
    begin(__builtin_frame_address(0));
    const int status = plumbline_powers(&modulus, bases, count, exponent, bits, secret, (uint8_t *)inputs[3]);
    end(hashes);
    return status;
}

/* plumbline_product, likewise. The task's arrays stay where they are: the caller writes other entries into them. */
EXPORT int trace_product(
    struct modulus modulus, const uint8_t *ciphertexts, const struct task *task, uint64_t *hashes
) {
    modulus.root = place(0, modulus.root, (modulus.root_bits + 7) / 8);
    ciphertexts = place(1, ciphertexts, task->blocks * task->rows * modulus.width);
    begin(__builtin_frame_address(0));
    const int status = plumbline_product(&modulus, ciphertexts, task, (uint8_t *)inputs[3]);
    end(hashes);
    return status;
}

/* What the last call gave. */
EXPORT const uint8_t *trace_output(void) { return (const uint8_t *)inputs[3]; }
