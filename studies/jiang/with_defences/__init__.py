"""Jiang, section 6: what defences cost the attack and the model, Figures 14 and 15."""
