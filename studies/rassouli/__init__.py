"""Rassouli, Varasteh, Gündüz: inference attacks on predictions, what they reach, and schemes against them."""
