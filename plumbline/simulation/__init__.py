"""Federations in one place: data in memory, models trained on all of it, what an adversary sees of them, measures."""
