"""How papers' experiments are simulated: trainings in one place, parties in one process, and who knows what."""
