"""Jiang, section 5.3: shadow models in the black box, Figures 11 to 13."""
