"""What the active and the passive parties have in common: training, consent, guard, features, record, defences."""
