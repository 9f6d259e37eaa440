"""What papers state, as claims: each with a test of a run's rows, from which its verdict follows."""
