"""The only place that sees truth: what a run amounts to, and how much each attack got."""
