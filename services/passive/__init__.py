"""A passive party: holds features, never a label; serves its half of Protocol 1."""
