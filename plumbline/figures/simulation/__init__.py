"""Models, trainings and measures that several studies share."""
