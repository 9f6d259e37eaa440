"""After how many sessions an audit looks at what predictions gave away: the auditor's record of it, and why so many."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import AliasChoices, Field

from services.common import limits
from services.common.run_records import SCHEMA


@dataclass(frozen=True)
class AskedParty:
    """How much a passive party's owner lets an active party be answered of a record.

    Attributes:
        name: the passive party's.
        features: d, its columns as they are encoded.
        equations: how many of a record may be answered over all sessions; ``forms`` in earlier runs.
        sessions: how many sessions these are enough for; 1 at least, which no owner refuses.
    """

    name: str
    features: Annotated[int, Field(ge=1, le=limits.FEATURES)]
    equations: Annotated[int, Field(ge=1, le=limits.FEATURES, validation_alias=AliasChoices("equations", "forms"))]
    sessions: Annotated[int, Field(ge=1, le=limits.FEATURES)]


@dataclass(frozen=True, kw_only=True)
class SessionLimit:
    """After how many sessions an audit looks at what predictions gave away; an auditor's.

    Attributes:
        schema: version of this format.
        share: the share of a record's equations that owners are thought to let be answered (``most_equations``).
        parties: what that means for each passive party, in the agreement's order.
        records: how many records each further session was trained on, in the clear; 0 for none.
        reason: why there is no further session where the limit allows some; a sentence.
        label_share: sums of labels to a record that the label party's owner is thought to let be told (``most_sums``).
    """

    schema: int = SCHEMA
    share: Annotated[float, Field(gt=0, le=1)]
    parties: Annotated[tuple[AskedParty, ...], Field(min_length=1)]
    records: Annotated[int, Field(ge=0)] = 0
    reason: str | None = None
    label_share: Annotated[float, Field(gt=0, le=1)] | None = None

    @property
    def sessions(self) -> int:
        """The most sessions with any passive party."""
        return max(one.sessions for one in self.parties)
