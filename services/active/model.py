"""A model that has been trained, or installed, as the active party asks for its scores."""

from collections.abc import Mapping
from dataclasses import dataclass

from services.adversary.predictions import Knowledge
from services.party.party_training import PartyTraining
from services.party.session import PartySession


@dataclass(frozen=True)
class TrainedModel:
    """What the active party predicts with: its part of a session that has come to its end.

    Attributes:
        session: its own part.
        row_of_id: the row of each aligned record in the common order.
        knowledge: what it knows besides, for attacks; None where none is mounted.
    """

    session: PartySession
    row_of_id: Mapping[str, int]
    knowledge: Knowledge | None = None

    @property
    def training(self) -> PartyTraining:
        """The weights of this party, and its features in the common order."""
        return self.session.training
