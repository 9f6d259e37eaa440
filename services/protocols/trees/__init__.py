"""Boosted trees: the label party sends encrypted derivatives, the others sums over bins of columns that stay theirs."""
