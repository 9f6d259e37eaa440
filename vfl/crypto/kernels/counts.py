"""How many modular products the work of a kernel takes: public numbers, from which layouts and chunks are chosen.

Constants are in products modulo n**2, measured at 2048 bits. Only their ratios matter, and they hardly change with the
size of the key; being constants, they let all parties arrive at the same layout.
"""

ENCRYPT_PRODUCTS = 105
RERANDOMISE_PRODUCTS = 2150
DECRYPT_PRODUCTS = 620
_LARGEST_GROUP = 14  # a table of 2**14 ciphertexts is 9 MB at 2048 bits


def group_cost(rows: int, digit_columns: int, group_size: int) -> int:
    """Count the modular products that the subset products of `rows` ciphertexts take, 2**group_size per table."""
    return -(-rows // group_size) * ((1 << group_size) + digit_columns)


def best_group_size(rows: int, digit_columns: int) -> int:
    """Find the number of ciphertexts per table that takes the fewest modular products."""
    return min(range(1, _LARGEST_GROUP + 1), key=lambda size: group_cost(rows, digit_columns, size))


def product_cost(rows: int, digit_columns: int, horner_bits: int) -> int:
    """Count the modular products of an encrypted matrix product.

    Args:
        rows: ciphertexts.
        digit_columns: digits of all columns together.
        horner_bits: the bits of all answers, from the lowest to the highest digit of its last column.
    """
    subset_products = group_cost(rows, digit_columns, best_group_size(rows, digit_columns))
    return subset_products + horner_bits + digit_columns
