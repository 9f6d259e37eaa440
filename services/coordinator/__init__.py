"""The coordinator: opens sessions, adds partial scores, answers with confidence scores."""
