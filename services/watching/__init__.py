"""How an owner watches its own process: a tally of what was answered and refused, its metrics, its audit log."""
