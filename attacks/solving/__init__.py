"""What several attacks solve, as pure mathematics: boxes, lattices, rotations, keys of a smooth order, subset sums."""
