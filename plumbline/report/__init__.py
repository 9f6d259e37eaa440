"""Pages about a run, self-contained: they load nothing and need no script; ``report.html`` has its answer first."""
