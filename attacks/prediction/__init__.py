"""Attacks on what predictions tell: scores, leaves, and what is known of a model and its records anyway."""
