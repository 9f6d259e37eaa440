"""``report.html``: one self-contained page per run, its answer first; it loads nothing and needs no script."""
