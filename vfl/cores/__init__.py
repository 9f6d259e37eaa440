"""The cores of this machine, and of a cluster that a party owns: one way to give work to all of them."""
