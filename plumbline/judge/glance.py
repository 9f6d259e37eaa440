"""The answer at a glance: one sentence, and a matrix of lights with numbers.

Rows are what can leak: columns, labels, persons. Columns are what passive parties do with their parameters, and after
how many sessions. A cell has the worst light of what it counts; where a run measured nothing of it, it is grey and says
so. More sessions never tell less than fewer: where one told something and more weren't measured, it is *or more*.
"""

from collections.abc import Sequence

from plumbline.judge.answer import ColumnAnswer, PartyAnswer
from plumbline.judge.evidence import SourceVerdict
from plumbline.judge.federation_part import at
from plumbline.judge.lights import RED_PART, are_too_few, light_of, light_of_column, light_of_training, worst
from plumbline.judge.persons import PersonFindings
from plumbline.judge.predictions import PredictionFindings
from plumbline.judge.record_risks import PersonRisk, RiskShare
from plumbline.judge.session_sentences import sessions_behind
from plumbline.judge.training import TrainingFinding
from plumbline.telling.document import NOT_MEASURED, Cell, Glance, Light
from plumbline.telling.numbers import percent

KEEPS, DISCLOSES = "keeps its parameters", "discloses them"
# From this risk on half of what was unknown of a person is told.
_HALF = 0.5
_SMALL = 0.1


def glance_at(
    predictions: PredictionFindings,
    training: Sequence[TrainingFinding],
    columns: Sequence[ColumnAnswer],
    parties: Sequence[PartyAnswer],
    persons: PersonFindings,
    *,
    labels_are_all: bool = False,
) -> Glance:
    """Sum up a run.

    Args:
        predictions: what was found of them.
        training: what attacks on training found.
        columns: the answer on each column of the passive tables.
        parties: what each risks, the active one first: no cell is greener than its parties are.
        persons: what is told of persons.
        labels_are_all: whether further sessions tell no more of labels than the one that was measured.
    """
    behind = sessions_behind(predictions.limit, columns)
    allowed = behind if predictions.limit is None or predictions.limit.reason else predictions.limit.sessions
    sessions = (1, allowed) if allowed > 1 else (1,)
    # Where parameters were kept, a run has no verdict for who keeps them apart.
    unknown = (NOT_MEASURED,) * len(sessions)
    keeping, disclosed = _columns(predictions.verdicts, sessions), unknown
    if predictions.kept:
        disclosed = keeping
        # No attack without parameters puts sessions together.
        first = _counted(predictions.kept_verdicts, list(map(light_of_column, predictions.kept_verdicts)))
        keeping = (first, _more(first))[: len(sessions)]
    labels = tuple(_capped(one, parties[:1]) for one in _labels(training, sessions, labels_are_all))
    keeping, disclosed = (tuple(_capped(one, parties[1:]) for one in some) for some in (keeping, disclosed))
    risk = tuple(_persons(persons.risks) if one == behind else NOT_MEASURED for one in sessions)
    if _besides(parties[1:]) != "green":
        # What training may tell is in nobody's risk.
        risk = tuple(Cell("grey", "not shown") if one.light == "green" else one for one in risk)
    rows = (
        ("columns", (*keeping, *disclosed)),
        ("labels", (*labels, *labels)),
        ("persons", (*unknown, *risk) if predictions.kept else (*risk, *unknown)),
    )
    return Glance(_sentence(columns, behind, labels[0], _besides(parties[1:])), (KEEPS, DISCLOSES), sessions, rows)


def _columns(columns: Sequence[SourceVerdict], sessions: Sequence[int]) -> tuple[Cell, ...]:
    """Count columns that are told after one session and after the most that are allowed."""
    alone = [light_of(one.one_session, one.headline) if one.one_session else light_of_column(one) for one in columns]
    first = _counted(columns, alone)
    if len(sessions) == 1:
        return (first,)
    if any(one.one_session for one in columns):
        return (first, _counted(columns, [light_of_column(one) for one in columns]))
    return (first, _more(first))


def _counted(columns: Sequence[SourceVerdict], lights: Sequence[Light]) -> Cell:
    leaking = sum(light in ("red", "amber") for light in lights)
    light = worst(lights)
    if light != "grey":
        return Cell(light, f"{leaking} of {len(lights)}")
    is_judged = any(at(one.levels, one.headline).attack and not are_too_few(one.levels) for one in columns)
    open_ones = sum(one == "grey" for one in lights)
    return Cell("grey", f"not shown of {open_ones} of {len(lights)}") if is_judged else NOT_MEASURED


def _besides(parties: Sequence[PartyAnswer]) -> Light:
    """Find the worst of what parties risk besides the columns, or labels, that are counted."""
    return worst([*(one.besides for one in parties), "green"])


def _capped(cell: Cell, parties: Sequence[PartyAnswer]) -> Cell:
    """Make a cell no better than what its parties risk besides: what training told, and what wasn't tried."""
    besides = _besides(parties)
    if (cell == NOT_MEASURED and besides == "grey") or worst([cell.light, besides]) == cell.light:
        return cell
    return Cell(besides, "not shown" if besides == "grey" else "told in training")


def _more(first: Cell) -> Cell:
    """Say what more sessions tell where one was measured: no less."""
    return Cell(first.light, f"{first.words} or more") if first.light in ("red", "amber") else NOT_MEASURED


def _labels(training: Sequence[TrainingFinding], sessions: Sequence[int], are_all: bool) -> tuple[Cell, ...]:
    findings = [one for one in training if one.levels]
    if not findings:
        return (NOT_MEASURED,) * len(sessions)
    light = worst([light_of_training(one) for one in findings])
    # Of those that the light is of.
    parts = [at(one.levels).part for one in findings if light_of_training(one) == light]
    most = max((part.mean for part in parts if part is not None), default=None)
    text = "not shown" if light == "grey" or most is None else f"{percent(max(0.0, most))} told"
    first = Cell(light, text)
    return (first, first if are_all else _more(first))[: len(sessions)]


def _persons(risks: Sequence[PersonRisk]) -> Cell:
    """Count persons of whom half of what was unknown is told, beside a control that nobody attacked.

    Beyond the control, by both intervals, it is red of half of them or more, else amber; where the interval's upper end
    is under a tenth, green.
    """
    shares = [one for risk in risks for one in risk.shares if one.bound == _HALF]
    if not shares:
        return NOT_MEASURED
    lights = [_light_of_share(one) for one in shares]
    light = worst(lights)
    most = max(one.share.mean for one, its in zip(shares, lights, strict=True) if its == light)
    return Cell(light, "not shown" if light == "grey" else f"{percent(most)} of them")


def _light_of_share(share: RiskShare) -> Light:
    if share.control is not None and share.share.low > share.control.high:
        return "red" if share.share.mean >= RED_PART else "amber"
    return "green" if share.share.high < _SMALL else "grey"


def _sentence(columns: Sequence[ColumnAnswer], sessions: int, labels: Cell, besides: Light = "green") -> str:
    """Say in at most twenty words what leaks."""
    how = {"red": "leak much", "amber": "leak something", "green": "leak little"}.get(labels.light)
    of_labels = f"labels {'were not measured' if labels == NOT_MEASURED else how or 'are not shown either way'}"
    lights = [one.light for one in columns]
    leaking, much = sum(light in ("red", "amber") for light in lights), lights.count("red")
    if leaking:
        leak = "leaks" if leaking == 1 else "leak"
        of_them = "" if not much else " much" if much == leaking else f", {much} of them much"
        subject = f"{leaking} of {len(columns)} columns" if len(columns) > 1 else "the one column"
        clause = f"{subject} {leak}{of_them}"
    elif besides in ("red", "amber"):
        clause = f"columns leak {'much' if besides == 'red' else 'something'} in training"
    elif not any(at(one.levels, one.headline).attack for one in columns):
        return f"What columns give away was not measured; {of_labels}."
    elif besides == "green" and all(light == "green" for light in lights):
        clause = f"all {len(columns)} columns leak little" if len(columns) > 1 else "the one column leaks little"
    else:
        none = f"none of {len(columns)} columns is" if len(columns) > 1 else "the one column isn't"
        clause = f"{none} shown to leak"
    text = f"After {sessions} sessions, {clause}" if sessions > 1 else clause[0].upper() + clause[1:]
    return f"{text}; {of_labels}."
