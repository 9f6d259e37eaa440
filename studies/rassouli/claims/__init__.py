"""What the paper states of its figures and theorems, as claims, in rooms named after what they are about."""
