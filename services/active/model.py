"""A model that has been trained, or installed, as the active party asks for its scores."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from services.adversary.knowledge import Knowledge
from services.party.model_file import KeptModel
from services.party.party_model import PartyModel
from vfl.data.id_array import IdArray, IdIndex


@dataclass(frozen=True)
class TrainedModel:
    """What the active party predicts with: its part of a session that has come to its end.

    Attributes:
        kept: its own part, as it is kept.
        row_of_id: finds the rows of aligned records in the common order by their ids.
        knowledge: what it knows besides, for attacks; None where none is mounted, or not yet asked for.
    """

    kept: KeptModel
    row_of_id: IdIndex
    knowledge: Knowledge | None = None

    @classmethod
    def of(cls, kept: KeptModel, ids: Sequence[str]) -> "TrainedModel":
        """A model with the records of this party's own table, whose ids these are."""
        return cls(kept, IdIndex(IdArray.of(ids).take(kept.order)))

    def knowing(self, knowledge: Knowledge) -> "TrainedModel":
        """The same, for attacks that know this besides."""
        return replace(self, knowledge=knowledge)

    @property
    def session_id(self) -> str:
        """The session that it is from."""
        return self.kept.session_id

    @property
    def model(self) -> PartyModel:
        """The weights of this party, and its features in the common order."""
        return self.kept.model
