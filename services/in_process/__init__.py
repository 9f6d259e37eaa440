"""How do real parties train in one process, without a network? Their links call each other's state machines."""
