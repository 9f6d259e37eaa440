"""``plumbline bench attacks``: how long attacks take on a standard table, and judging them."""
