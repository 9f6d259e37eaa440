"""The experiments of Varasteh: the agnostic attack, and disclosed parameters that were moved against it."""
