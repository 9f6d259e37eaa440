"""Jiang, Zhou, Grossklags, Comprehensive Analysis of Privacy Leakage in Vertical Federated Learning During Prediction."""
