"""Attacks: one file per family, each a pure function of what its adversary saw."""
