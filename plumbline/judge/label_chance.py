"""What chance makes of a party's attacks on labels: the same attacks on messages that are about other records.

An answer of few sums is a combination of the party's *own* columns, whatever the sums are. Such combinations agree over
records, so that a law which takes records for independent calls chance a leak. Here messages are drawn again, with own
columns, labels, batches and known labels as they are, and the light's own statistic is taken of each attack on each
draw. Attacks are put on one scale by their draws' mean and spread, and each is set against the largest over all of them
(Westfall and Young 1993, single step): p = (1 + draws that tell as much) / (1 + draws). Of messages without any link to
labels at most a share p of audits looks as telling, whatever attacks are mounted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

import attacks
from attacks.training.recovered_labels import UNRESOLVED
from attacks.training_attack import ListeningAttack, listens
from attacks.training_views import TrainingView
from plumbline.judge.labels import LABELLED_RECORDS, LabelGuesses
from plumbline.judge.redrawn_messages import RedrawnMessages, clear_session
from services.common.identity import Role
from services.common.run_folder import RunFolder
from services.common.run_records import FoundLabels
from vfl.arrays import FloatArray, IntArray

# Draws, and how many that tell an attack as much are enough to see that it is chance.
DRAWS, ENOUGH = 199, 10
# Of a redrawn training. Of fewer records chance tells more, so that large tables are judged strictly.
_MOST_RECORDS, _MOST_CELLS, _FEWEST_RECORDS = 1_500, 20_000_000, 50
# Statistics differ by less than this only by rounding, and so little of a part is no spread.
_SAME, _LEAST_SPREAD = 1e-9, 1e-3


@dataclass(frozen=True, eq=False)
class LabelChance:
    """How much a party's attacks on labels tell, and how much of messages that are about other records.

    Attributes:
        told: (m,) the light's statistic of each attack.
        drawn: (b, m), of each draw.
        reason: why there are no draws; empty where there are.

    Examples:
        The second attack tells as much of any message, and doesn't hide the first:

        >>> LabelChance(np.array([0.7, 0.9]), np.array([[0.1, 0.9], [0.2, 0.9], [0.3, 0.9]])).p_values
        array([0.25, 1.  ])
    """

    told: FloatArray
    drawn: FloatArray
    reason: str = ""

    @property
    def means(self) -> FloatArray:
        """What chance tells each attack on average, (m,)."""
        means: FloatArray = self.drawn.mean(axis=0)
        return means

    @property
    def p_values(self) -> FloatArray:
        """Find how likely chance tells any of the attacks as much as each, (m,)."""
        every = np.vstack([self.told, self.drawn])
        scaled = (every - every.mean(axis=0)) / np.maximum(every.std(axis=0), _LEAST_SPREAD)
        largest = scaled[1:].max(axis=1)
        chances: FloatArray = (1 + (largest[:, None] >= scaled[0] - _SAME).sum(axis=0)) / (1 + len(largest))
        return chances


def drawn_until_chance(statistics: Sequence[float], draw: Callable[[], Sequence[float]]) -> LabelChance:
    """Draw until all is seen to be chance: ``ENOUGH`` draws tell each attack as much; ``DRAWS`` at most.

    Examples:
        >>> len(drawn_until_chance([0.5], lambda: [0.6]).drawn), len(drawn_until_chance([0.5], lambda: [0.4]).drawn)
        (10, 199)
    """
    observed, draws = np.array(statistics), list[FloatArray]()
    exceeded = np.zeros(len(observed), dtype=np.int64)
    while len(draws) < DRAWS and (exceeded < ENOUGH).any():
        draws.append(np.array(draw()))
        exceeded += draws[-1] >= observed
    return LabelChance(observed, np.array(draws))


def told_of(listening: Sequence[ListeningAttack], view: TrainingView, guesses: LabelGuesses) -> list[float]:
    """Find how much each of a party's attacks tells of labels, as their light counts it."""
    answers = [FoundLabels(**one.attack(view).arrays()) for one in listening]
    return [guesses.told(one.labels, one.probabilities) for one in answers]


def label_chance(
    folder: RunFolder, party: str, statistics: Mapping[str, float], *, known_rows: IntArray | None = None
) -> LabelChance:
    """Redraw what a passive party was sent, and repeat its attacks on labels, in the clear (SIMULATION).

    Args:
        folder: of the run, with all parties' features.
        party: whose attacks they are.
        statistics: the light's statistic of each of them, by name; options in parentheses are its defaults here.
        known_rows: records whose labels the party knew beforehand; None for none.
    """
    generator = np.random.default_rng(0)
    try:
        agreement = folder.record(Role.ACTIVE).agreement
        if agreement is None:
            return _none("The run has no terms to train again under.")
        listening = _listening(statistics)
        labels = folder.labels()
        blocks = [folder.features(one.name).features for one in agreement.parties]
        index = [one.name for one in agreement.parties].index(party)
        trained = agreement.plan.split(len(labels)).train
        width = max(1, blocks[index].shape[1], agreement.residual_columns)
        most = min(_MOST_RECORDS, _MOST_CELLS // (agreement.plan.epochs * width))
        if min(most, len(trained)) < _FEWEST_RECORDS:
            return _none(f"Fewer than {_FEWEST_RECORDS} records can be trained on again.")
        train = generator.permutation(trained)[:most]
        untrained = generator.permutation(np.setdiff1d(np.arange(len(labels)), trained))[: LABELLED_RECORDS[-1]]
        rows = np.sort(np.concatenate([train, untrained]))
        places = np.flatnonzero(np.isin(rows, train))
        session = clear_session(
            agreement, [block[rows] for block in blocks], labels[rows], index, places, np.random.default_rng(0)
        )
        is_known = np.zeros(len(rows), dtype=np.bool_) if known_rows is None else np.isin(rows, known_rows)
        if is_known.any():
            session = session.with_known(np.where(is_known, labels[rows], UNRESOLVED))
        guesses = LabelGuesses(
            labels[rows], np.setdiff1d(places, np.flatnonzero(is_known)), blocks[index][rows], np.flatnonzero(is_known)
        )
        messages = RedrawnMessages(session)
        return drawn_until_chance(
            list(statistics.values()), lambda: told_of(listening, messages.draw(generator), guesses)
        )
    except Exception as error:  # a guest's bug, or a learner of its own, costs its redraws only
        return _none(f"What chance tells {party} of labels can't be redrawn: {error}")


def _none(reason: str) -> LabelChance:
    return LabelChance(np.zeros(0), np.zeros((0, 0)), reason)


def _listening(names: Mapping[str, float]) -> list[ListeningAttack]:
    loaded = [attacks.load_training(name.partition("(")[0]) for name in names]
    return [one for one in loaded if listens(one)]
