"""The answer at a glance: one sentence, and a matrix of lights with numbers.

Rows are what can leak: columns, labels, persons, each with who learns it. Columns are what passive parties do with
their parameters, and after how many sessions. A cell has the worst light of what it counts; where a run measured
nothing of it, it is grey and says so. More sessions never tell less than fewer: where one told something and more
weren't measured, it is *or more*. The sentence begins with what leaks most, by its light.
"""

from collections.abc import Mapping, Sequence

from plumbline.judge.answer import ColumnAnswer, PartyAnswer, together
from plumbline.judge.evidence import SourceVerdict
from plumbline.judge.federation_part import at
from plumbline.judge.joining import VERDICTS, Stakes, best_change
from plumbline.judge.lights import RED_PART, are_too_few, light_of, light_of_column, light_of_training, telling, worst
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
# So many parties aren't named one by one.
_MANY = 3
_HOW: Mapping[Light, str] = {"red": "much", "amber": "something", "green": "little"}


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
    of_persons = next((one for one in risk if one != NOT_MEASURED), NOT_MEASURED)
    sentence = _sentence(columns, behind, labels[0], of_persons, _besides(parties[1:]))
    return Glance(sentence, (KEEPS, DISCLOSES), sessions, rows, _learns(parties), int(bool(predictions.kept)))


def _learns(parties: Sequence[PartyAnswer]) -> tuple[str, ...]:
    """Say of each row what its cells count: how many of whose who learns."""
    if not parties:
        return ()
    active, *others = [one.title or one.party for one in parties]
    passive = together(others) if len(others) < _MANY else f"{len(others)} passive parties"
    learn = "learns" if len(others) == 1 else "learn"
    return (
        f"how many {active} learns of {passive}",
        f"how many {passive} {learn} of {active}",
        f"of how many {active} learns half or more of what nobody could guess",
    )


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
    shares = [_shares_told(one) for one in findings if light_of_training(one) == light]
    right, guess = max(shares, key=lambda pair: pair[0] - pair[1])
    first = Cell(light, "not shown" if light == "grey" else f"{percent(right)} known, {percent(guess)} by guessing")
    return (first, first if are_all else _more(first))[: len(sessions)]


def _shares_told(finding: TrainingFinding) -> tuple[float, float]:
    """Give the share of labels that an attack has right, and a guess; of the rarest class where that is its light."""
    verdict = telling(finding.levels)
    if finding.rarest is not None and finding.rarest.is_told and light_of(finding.levels) != light_of_training(finding):
        return finding.rarest.precision, finding.rarest.share
    return 1 - (verdict.e0 if verdict.error is None else min(verdict.error, verdict.e0)), 1 - verdict.e0


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


def _sentence(
    columns: Sequence[ColumnAnswer], sessions: int, labels: Cell, persons: Cell, besides: Light = "green"
) -> str:
    """Say in at most twenty words what leaks, the worst first, and of what that isn't known."""
    lights = [one.light for one in columns]
    leaking, much, light = sum(light in ("red", "amber") for light in lights), lights.count("red"), worst(lights)
    leak, how = "leaks" if len(columns) == 1 or leaking == 1 else "leak", _HOW.get(light, "")
    clause = "the one column" if len(columns) == 1 else f"{leaking} of {len(columns)} columns" if leaking else "columns"
    clause += f" {leak}, {much} much" if 0 < much < leaking else f" {leak} {how}"
    if besides != "green" and worst([light, besides]) != light:
        light, clause = besides, f"columns leak {_HOW.get(besides, '')} in training"
    people = (
        f"{persons.words.removesuffix('them')}persons leak much" if persons.light != "green" else "persons leak little"
    )
    is_judged = any(at(one.levels, one.headline).attack for one in columns)
    clauses = (
        ("columns", light, clause, is_judged),
        ("labels", labels.light, f"labels leak {_HOW.get(labels.light)}", labels != NOT_MEASURED),
        ("persons", persons.light, people, persons != NOT_MEASURED),
    )
    parts = [text for one in _HOW for _, its, text, _ in clauses if its == one]
    for why, wanted in (("not shown", True), ("not measured", False)):
        names = [name for name, its, _, measured in clauses if its == "grey" and measured == wanted]
        parts += [f"{why}: {together(names)}"] if names else []
    text = "; ".join(parts)
    return f"After {sessions} sessions, {text}." if sessions > 1 else f"{text[0].upper()}{text[1:]}."


def joining_words(stakes: Stakes, changes: Mapping[str, Stakes]) -> str:
    """Say whether to join, as it is and with the best of the ``changes`` that were measured."""
    light, text = worst([*stakes.values()]), f"Join as it is? {_verdict(stakes)}."
    if light == "green":
        return text
    if not (best := best_change(stakes, changes)):
        return f"{text} {'Nothing that was tried changes' if changes else 'Nothing was tried to change'} that."
    verdict = _verdict(changes[best])
    if worst([*changes[best].values()]) == light:
        verdict = f"Still {verdict[0].lower()}{verdict[1:]}"
    return f"{text} With {best}? {verdict}."


def _verdict(stakes: Stakes) -> str:
    by_light = {light: [name for name, its in stakes.items() if its == light] for light in (*_HOW, "grey")}
    phrases = [
        f"{together(names)} leak {_HOW[light]}" if light in _HOW else f"can't say about {together(names)}"
        for light, names in by_light.items()
        if names
    ]
    return f"{VERDICTS[worst([*stakes.values()])]}: {'; '.join(phrases)}"
