"""Federations for tests: exchanges wired to each other, whole parties in one process, and real processes."""
