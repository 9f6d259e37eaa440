"""The papers' closed forms and bounds: what leaks, and how well attacks and defences can do."""
