/* The encrypted matrix product by subset products ("Four Russians"), packed by Horner's rule. */
#ifndef PLUMBLINE_PRODUCT_H
#define PLUMBLINE_PRODUCT_H

#include "ring.h"

/* Of each block of ciphertexts, answer a is the product over its columns j and all rows u of c_u**(M_uj 2**shift_j),
 * times the block's corrections of its columns at their shifts. Columns of an answer stand together, and their digits
 * don't overlap. */
struct task {
    uint64_t blocks, rows, columns, answers, group_size;
    uint64_t corrections;        /* how many each block has */
    const int64_t *entries;      /* (rows, columns), 0 <= M < 2**digits */
    const int64_t *digits;       /* (columns,), 1 to 63 */
    const int64_t *shifts;       /* (columns,), ascending within an answer */
    const int64_t *answer;       /* (columns,), ascending from 0 without gaps */
    const int64_t *correction;   /* (columns,), which one; -1: none */
    const uint8_t *correction_bytes; /* residues, block by block */
};

#define LARGEST_GROUP 14

/* Write the answers as residues, block by block. False where there is no memory. */
bool encrypted_product(const struct ring *ring, uint8_t *out, const uint8_t *ciphertexts, const struct task *task);

#endif
