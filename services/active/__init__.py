"""The active party: holds the labels, leads a session from alignment to confidence scores."""
