"""The papers' experiments, redrawn by one command each (``plumbline figures``), beside what the papers state."""
