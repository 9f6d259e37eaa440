"""Jiang, sections 5.1 and 5.2: gradient inversion in the white box, Figures 5 to 10."""
