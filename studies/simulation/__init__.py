"""How papers' experiments are simulated: trainings in one place, what an adversary sees of them, and who knows what."""
