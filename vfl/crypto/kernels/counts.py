"""How many modular products the work of a kernel takes: public numbers, from which layouts and chunks are chosen."""

_LARGEST_GROUP = 14  # a table of 2**14 ciphertexts is 9 MB at 2048 bits


def group_cost(rows: int, digit_columns: int, group_size: int) -> int:
    """Count the modular products that the subset products of `rows` ciphertexts take, 2**group_size per table."""
    return -(-rows // group_size) * ((1 << group_size) + digit_columns)


def best_group_size(rows: int, digit_columns: int) -> int:
    """Find the number of ciphertexts per table that takes the fewest modular products."""
    return min(range(1, _LARGEST_GROUP + 1), key=lambda size: group_cost(rows, digit_columns, size))
