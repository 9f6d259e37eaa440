"""Attacks on what a training tells, by who takes part in it or only listens: labels, and columns of other parties."""
