"""The native kernel in C: its sources, how they are compiled, and the library that comes of them."""
