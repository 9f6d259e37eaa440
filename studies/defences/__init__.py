"""Every defence against every attack, what it costs, and the papers' figures of defences."""
