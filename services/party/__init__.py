"""What the active and the passive parties have in common: their half of Protocol 1, training, links to the others."""
