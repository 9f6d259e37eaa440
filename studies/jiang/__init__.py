"""Jiang, Zhou and Grossklags on privacy leakage of predictions: their experiments, redrawn."""
