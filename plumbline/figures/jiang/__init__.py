"""Figures of Jiang, Zhou, Grossklags (2022): gradient inversion of predictions, white box, black box, defences."""
