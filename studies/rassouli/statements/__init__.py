"""What the paper states of its experiments, with verdicts from measurements."""
