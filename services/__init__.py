"""The three services of a federation (coordinator, active, passive) and what they share. Only here is gRPC known."""
