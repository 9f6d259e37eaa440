/* A table's entry without telling which: all of the table is read, and all but one entry masked away.
 *
 * In a header, so that every kind of lanes compiles it with its own instructions.
 */
#ifndef PLUMBLINE_SELECT_H
#define PLUMBLINE_SELECT_H

#include "memory.h"

/* All ones where a equals b, else zero, without a branch that the compiler could put in. */
static inline word mask_if_equal(word a, word b) {
    word difference = a ^ b;
    word mask = ((difference | (0 - difference)) >> 63) - 1;
    __asm__("" : "+r"(mask));
    return mask;
}

static inline void select_entry(word *out, const word *table, size_t entries, size_t words, size_t index) {
    for (size_t i = 0; i < words; i++)
        out[i] = 0;
    for (size_t entry = 0; entry < entries; entry++) {
        const word mask = mask_if_equal(entry, index);
        const word *chosen = table + entry * words;
        for (size_t i = 0; i < words; i++)
            out[i] |= chosen[i] & mask;
    }
}

#endif
