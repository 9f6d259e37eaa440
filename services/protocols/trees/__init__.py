"""Boosted trees: the label party sends encrypted derivatives, the others sums over bins of columns that stay theirs.

Both sides stand here, apart from any network. No service trains by them yet, so no registry names them.
"""
