"""Models and measures that several studies share."""
