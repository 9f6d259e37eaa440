"""What travels between two parties in training under a protocol that has no messages of its own on the wire."""
