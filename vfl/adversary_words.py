"""Words that attacks and the files of a run both say of an adversary: its conduct, what it knows, names of arrays."""

from typing import Literal, get_args

Conduct = Literal["listens", "replaces_messages", "replaces_features", "replaces_shares", "replaces_requests"]
# What the adversary knows beforehand of the passive columns; each level knows all that the one before does. At every
# level it may use what it owns, its columns and its labels. In order: public ranges only; each column's mean and
# variance, or frequencies; the covariance of the passive columns among themselves; some complete records.
Level = Literal["nothing", "marginals", "covariance", "records"]
LEVELS: tuple[Level, ...] = get_args(Level)
# Of arrays with recovered features, before a peer's name.
VALUES_OF, ROWS_OF, GUESSES_OF = "values-", "rows-", "guesses-"
