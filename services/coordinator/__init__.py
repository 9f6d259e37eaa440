"""The coordinator: opens sessions, adds partial scores, and answers with confidence scores."""
