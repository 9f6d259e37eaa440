"""The papers' experiments, redrawn by one command each, sweeps and benchmarks: beside the product, on top of it."""

# No measurement is computed by these: a change of them makes no kept one stale.
ASIDE = ("studies.claims", "studies.page", "studies.study")
