"""Boosted trees: the label party sends encrypted derivatives, the others sums over bins of columns that stay theirs.

Both sides stand here apart from any network (`label_side`, `passive_side`); `tree_side` puts them into a session.
"""
