# No measurement is computed by these: a change of them makes no kept one stale.
ASIDE = ("studies.claims", "studies.page", "studies.study")
