"""Hu's Protocol 1 between two parties: ciphers, formats, the exchange, and its two ends on the wire."""
