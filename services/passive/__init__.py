"""A passive party: holds features, never a label, and serves its half of Protocol 1."""
