"""The library at the bottom: cryptography, learning, data and theory. It knows no network, attack or defence."""
