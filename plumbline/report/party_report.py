"""What one party may know of a session: its own folder read again, without anybody else's and without the truth.

The active party reads what its model is worth and what its own attacks claim. A passive party reads what it gave away:
the equations that others hold of its table, by the counts of Hu and the row space of its own parameters (Rassouli III).
"""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from plumbline.judge.predictions import HIGH, LOW, WITHHELD
from plumbline.judge.summary import assumptions, expectations
from plumbline.report import run_tables as tables
from plumbline.report.html import template
from plumbline.telling.numbers import percent
from services.common.agreement import Agreement
from services.common.durable import write_durably
from services.common.run_files import RunFolderError
from services.common.run_folder import RunFolder
from services.common.run_records import (
    PartyRecord,
    PredictionAttackOutcome,
    TrainingAttackOutcome,
    content_of,
)
from vfl.data.faults import counted
from vfl.learning import LinearPart, class_rows
from vfl.learning.confidence import unit_rows
from vfl.learning.score_quality import ScoreQuality
from vfl.theory.prediction import equations, row_space


@dataclass(frozen=True)
class Claim:
    """What one of the party's own attacks on predictions claims; nobody here knows whether it is right.

    Attributes:
        outcome: how it went.
        width: mean width of its 90 % intervals, on features' scale of 0 to 1; None where it gives none.
        moved: mean distance of its estimates from what it would have guessed without scores; None where it doesn't say.
    """

    outcome: PredictionAttackOutcome
    width: float | None
    moved: float | None


@dataclass(frozen=True)
class ToldFeature:
    """How much of one of the party's features every scored record tells.

    Attributes:
        name: of the feature.
        share: of it that scores and parameters fix, whatever else is known, in [0, 1]; 1 is all of it.
    """

    name: str
    share: float


@dataclass(frozen=True)
class PartyView:
    """What a party's own folder tells.

    Attributes:
        party: its name.
        is_active: whether it has the labels.
        agreement: the session's terms.
        record: what it wrote of the session.
        quality: the model's, on the test records; the active party's.
        claims: of its own attacks on predictions, on the test records.
        on_training: how its own attacks on training went.
        told: its own features, the most exposed first; a passive party's.
        known_directions: how many combinations of its features each score fixes; a passive party's.
    """

    party: str
    is_active: bool
    agreement: Agreement
    record: PartyRecord
    quality: ScoreQuality | None = None
    claims: tuple[Claim, ...] = ()
    on_training: tuple[TrainingAttackOutcome, ...] = ()
    told: tuple[ToldFeature, ...] = ()
    known_directions: int = 0

    @property
    def sentence(self) -> str:
        """What matters most, in a sentence or two."""
        return _active_words(self) if self.is_active else _passive_words(self)

    def content(self) -> dict[str, Any]:
        """Write what the page says beyond the record, as JSON stores it."""
        return {
            "party": self.party,
            "is_active": self.is_active,
            "session_id": self.agreement.session_id,
            "sentence": self.sentence,
            "quality": None if self.quality is None else asdict(self.quality),
            "claims": [content_of(one.outcome) | {"width": one.width, "moved": one.moved} for one in self.claims],
            "training_attacks": content_of(self.on_training),
            "told": [asdict(one) for one in self.told],
            "known_directions": self.known_directions,
        }

    @property
    def others(self) -> str:
        """The other parties' names."""
        return " and ".join(party.name for party in self.agreement.peers_of(self.party))


def read_party(folder: RunFolder) -> PartyView:
    """Read a party's own folder.

    Raises:
        RunFolderError: where nobody's session is in it, or several parties' are, or a file is broken.
    """
    records = folder.records()
    if not records:
        raise RunFolderError(
            f"{folder.path} holds no party's record: name the folder that the party writes to (PLUMBLINE_RUN_DIR), "
            "once it has trained."
        )
    if len(records) > 1:
        raise RunFolderError(
            f"{folder.path} holds the records of {', '.join(records)}: no single party has all of them. "
            "`plumbline report RUN` makes an audit's report."
        )
    ((party, record),) = records.items()
    if record.agreement is None:
        raise RunFolderError(f"{party}'s record in {folder.path} tells of no session: none began. See its log for why.")
    if party == record.agreement.active.name:
        return _active_view(folder, party, record, record.agreement)
    return _passive_view(folder, party, record, record.agreement)


def write_party_report(path: Path, view: PartyView) -> None:
    """Render what one party may know into one page."""
    words = {"tables": tables, "expectations": expectations, "assumptions": assumptions}
    page = template("party_report.html").render(view=view, record=view.record, plan=view.agreement.plan, **words)
    write_durably(path, page.encode())


def _active_view(folder: RunFolder, party: str, record: PartyRecord, agreement: Agreement) -> PartyView:
    tested = folder.delivered_scores(agreement)
    return PartyView(
        party,
        True,
        agreement,
        record,
        quality=ScoreQuality.of(tested.scores, tested.labels),
        claims=tuple(_claims(folder)),
        on_training=folder.training_outcomes(),
    )


def _claims(folder: RunFolder) -> list[Claim]:
    """List what attacks claim of the first batch, the test records."""
    outcomes = [one for one in folder.prediction_outcomes() if one.batch == 0]
    arrays = folder.estimates(0).by_attack if any(one.is_done for one in outcomes) else {}
    return [
        Claim(
            one,
            _mean_distance(arrays.get(LOW + one.attack), arrays.get(HIGH + one.attack)),
            _mean_distance(arrays.get(one.attack), arrays.get(WITHHELD + one.attack)),
        )
        for one in outcomes
    ]


def _mean_distance(estimate: np.ndarray | None, other: np.ndarray | None) -> float | None:
    return None if estimate is None or other is None else float(np.abs(other - estimate).mean())


def _passive_view(folder: RunFolder, party: str, record: PartyRecord, agreement: Agreement) -> PartyView:
    view = PartyView(party, False, agreement, record, on_training=folder.training_outcomes())
    spec = agreement.plan.family.spec
    if not (spec.part is LinearPart or spec.answers == "sums") or not agreement.serving.tells_owners:
        return view
    block = folder.weights(party)
    space = row_space(equations(unit_rows(block.weights) if spec.answers == "sums" else class_rows(block.weights)))
    shares = (space.basis**2).sum(axis=1)
    features = [ToldFeature(str(name), float(share)) for name, share in zip(block.features, shares, strict=True)]
    return replace(view, told=tuple(sorted(features, key=lambda one: -one.share)), known_directions=space.rank)


def _active_words(view: PartyView) -> str:
    sentence = f"{view.party} trained with {view.others} on {counted(view.agreement.training_rows, 'record')}"
    if view.quality is not None:
        tested = counted(view.quality.test_rows, "test record")
        sentence += f", and the model labels {percent(view.quality.accuracy, 1)} of {tested} right"
    sharpest = min((one for one in view.claims if one.width is not None), key=lambda one: one.width or 0, default=None)
    if sharpest is not None:
        sentence += (
            f". Its attack {sharpest.outcome.attack} claims to know a value of another party's to within "
            f"{sharpest.width:.2f} of a range of 1, in nine of ten cases; only an auditor can say whether it does"
        )
    return f"{sentence}."


def _passive_words(view: PartyView) -> str:
    active, features = view.agreement.active.name, len(view.told) or view.agreement.party(view.party).feature_count
    if not view.record.discloses:
        return (
            f"{view.party} tells {active} no parameters: each score depends on {counted(features, 'feature')} of "
            f"{view.party}'s in a way that {active} doesn't know, and no equation about them follows from it alone."
        )
    if not view.told:
        return (
            f"{view.party} discloses a model that was trained elsewhere to {active}: what a score and it tell of each "
            "feature isn't counted here."
        )
    if view.known_directions >= features:
        return (
            f"{active} can compute every feature of {view.party}'s from a record's scores and the disclosed parameters."
        )
    most = view.told[0]
    return (
        f"Each scored record tells {active} {counted(view.known_directions, 'equation')} about "
        f"{counted(features, 'feature')} of {view.party}'s. {most.name} is told most: {percent(most.share)} of it, "
        f"before anything else that {active} knows."
    )
