"""What received columns tell of secret ones, in an audit's words and lights, with the control beside them.

Lights are of who has the declared known records in full (level ``records``), or knows less: red begins at half of what
was unknown, as in an audit. A column of which a shuffled copy tells a tenth beyond chance is grey.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from attacks import Level
from plumbline.judge.answer import Answer, ColumnAnswer, PartyAnswer, column_sentence, judged_words, listed, short
from plumbline.judge.evidence import ColumnLevels, Predictor, SourceVerdict
from plumbline.judge.federation_part import LEAST_KNOWN, at
from plumbline.judge.lights import LEAST_RECORDS, are_too_few, light_of_column, worst
from plumbline.judge.persons import PersonFindings
from plumbline.judge.predictions import PredictionFindings, judge_predictions, predictors
from plumbline.judge.training import TrainingFinding
from plumbline.judge.truth import Truth
from plumbline.notebook import ShownFindings
from plumbline.received.judge_request import SECRET
from plumbline.received.mounting import RECEIVED_BATCH, SHUFFLED_BATCH
from plumbline.received.received_persons import received_persons
from plumbline.received.received_tables import JudgeFacts
from plumbline.received.skewed_columns import guesses
from plumbline.telling.document import Light
from plumbline.telling.numbers import percent
from services.common.run_folder import RunFolder
from vfl.data.faults import counted

# Whoever was tried has complete records.
KNOWING: Level = "records"
TELLER = "what was received"
# In the order of a list.
LIGHTS: tuple[Light, ...] = ("red", "amber", "green", "grey")
_BETTER: Mapping[Light, str] = {"red": "far better", "amber": "somewhat better"}


@dataclass(frozen=True, eq=False, repr=False)
class ReceivedFindings(ShownFindings):
    """What received columns tell of secret ones.

    Attributes:
        facts: what was judged.
        predictions: what the adversaries estimated, and the verdicts before the control.
        shuffled: the verdict on each secret column by a shuffled copy of what was received.
        answer: the verdict in words, with lights.
        folder: what was computed of it; None where these findings are of no run on disk.
        training: nothing: no training was watched.
        persons: how many persons it comes closer to than a guess, beside the shuffled copy.
    """

    facts: JudgeFacts
    predictions: PredictionFindings
    shuffled: tuple[SourceVerdict, ...]
    answer: Answer
    folder: RunFolder | None = None
    training: tuple[TrainingFinding, ...] = ()
    persons: PersonFindings = field(default_factory=PersonFindings)

    @property
    def control_words(self) -> str:
        """Say how the shuffled copy came out."""
        if not self.shuffled:
            return ""
        failed = [one.column for one in self.shuffled if one.is_exposed()]
        if failed:
            return (
                f"The control failed: a shuffled copy of {TELLER}, which tells nothing, tells a tenth or more of "
                f"{listed(failed)}. Nothing is shown either way of {'them' if len(failed) > 1 else 'it'}."
            )
        largest = percent(max(map(control_part, self.shuffled), default=0.0))
        return (
            f"The control came out at 0: a shuffled copy of {TELLER} tells no column beyond chance, {largest} at most."
        )

    def as_dict(self) -> dict[str, Any]:
        """Write everything as JSON has it: ``results.json`` of a judge's run."""
        return {
            "received": asdict(self.facts),
            **asdict(self.predictions),
            "shuffled": [asdict(one) for one in self.shuffled],
            "control": self.control_words,
            "persons": asdict(self.persons),
            "answer": {"sentence": self.answer.sentence, **asdict(self.answer)},
            "largest_part": self.answer.largest_part,
        }


def read_received_findings(folder: RunFolder, facts: JudgeFacts) -> ReceivedFindings:
    """Judge what lies in the folder of a run.

    Args:
        folder: with features, estimates and outcomes of both batches.
        facts: what was judged.

    Raises:
        RunFolderError: for a file that is missing or broken.
    """
    estimates, outcomes = folder.estimates(RECEIVED_BATCH), folder.prediction_outcomes()
    truth = Truth(folder, [SECRET], estimates)
    imputed = guesses(truth)

    def judged(batch: int) -> tuple[PredictionFindings, list[Predictor]]:
        arrays, mine = folder.estimates(batch).by_attack, [one for one in outcomes if one.batch == batch]
        verdicts = at_records(judge_predictions(truth, mine, arrays, imputed))
        return verdicts, predictors(mine, arrays)[0]

    findings, predicted = judged(RECEIVED_BATCH)
    control, by_chance = judged(SHUFFLED_BATCH) if outcomes else (PredictionFindings(), [])
    shuffled, persons = control.sources, PersonFindings()
    answer = received_answer(facts, findings, shuffled)
    if findings.distinct >= LEAST_RECORDS and shuffled:
        persons = received_persons(truth, findings.sources, imputed, predicted, by_chance, facts.trained)
    return ReceivedFindings(facts, findings, shuffled, answer, folder, persons=persons)


def at_records(findings: PredictionFindings) -> PredictionFindings:
    """Let every verdict be of who has known records."""
    return replace(findings, sources=tuple(replace(one, headline=KNOWING) for one in findings.sources))


def control_part(verdict: SourceVerdict) -> float:
    """Find the largest part of a column that its shuffled copy tells, by any measure."""
    levels = [at(one, KNOWING) for one in verdict.measures if not are_too_few(one)]
    return max((one.part.mean for one in levels if one.part is not None), default=0.0)


def received_answer(facts: JudgeFacts, findings: PredictionFindings, shuffled: Sequence[SourceVerdict]) -> Answer:
    """Say what was found, column by column: a column whose control (``shuffled``) tells a tenth as well is grey."""
    controls = {one.column: control_part(one) for one in shuffled if one.is_exposed()}
    columns = [_column(facts, one, controls.get(one.column)) for one in findings.sources]
    columns.sort(key=_rank)
    light = worst([one.light for one in columns])
    sentences = _sentences(facts, columns)
    exposed = [one.column for one in columns if one.light in ("red", "amber")]
    sentence = (
        f"{len(exposed)} of its {counted(len(columns), 'column')} can be told better than by guessing: "
        f"{listed(exposed)}."
        if exposed
        else f"None of its {counted(len(columns), 'column')} is shown to be told a tenth better than by guessing."
    )
    parties = (PartyAnswer(SECRET, light, sentence if facts.known or exposed else sentences[0], facts.secret),)
    labels = tuple(f"labels: {one.sentence}." for one in columns if one.column == facts.label)
    not_measured = tuple(_not_measured(facts, findings))
    return Answer(tuple(sentences), light, parties, tuple(columns), labels, not_measured)


def _rank(column: ColumnAnswer) -> tuple[int, bool, float]:
    part = at(column.levels, KNOWING).part
    return LIGHTS.index(column.light), column.role != "sensitive", -1.0 if part is None else -part.mean


def _column(facts: JudgeFacts, verdict: SourceVerdict, control: float | None) -> ColumnAnswer:
    shared = {one.name: getattr(verdict, one.name) for one in fields(ColumnLevels)}
    light, sentence = light_of_column(verdict), column_sentence(verdict, TELLER)
    if control is not None:
        reason = f"not shown either way: a shuffled copy of what was received tells {percent(control)} of it"
        return ColumnAnswer(**shared, light="grey", sentence=f"{short(verdict.column)}: {reason}")
    if light == "green" and facts.known < LEAST_KNOWN:
        light, sentence = "grey", f"{sentence}; {facts.known} known records are too few to say that none can"
    return ColumnAnswer(**shared, light=light, sentence=sentence)


def _sentences(facts: JudgeFacts, columns: Sequence[ColumnAnswer]) -> list[str]:
    """Say what the receiver learns, of all columns."""
    received = short(facts.received)
    named = {light: [one.column for one in columns if one.light == light] for light in LIGHTS}
    if not (facts.known or named["red"] or named["amber"]):
        return [
            f"What {received} tells of {short(facts.secret)} was not measured: without complete records nobody learns "
            "how they depend. Say how many the receiver may have with --known."
        ]
    who = f"Who has {facts.known:,} of these records in full and" if facts.known else "Whoever"
    sentences = list[str]()
    for light, how in _BETTER.items():
        if names := named[light]:
            subject = "It" if sentences else f"{who} receives {received}"
            of = f"{len(names)} more" if sentences else f"{len(names)} of {len(columns)} columns"
            of = "its one column" if len(columns) == 1 else of
            sentences.append(f"{subject} can tell {of} ({listed(names)}) {how} than it could guess.")
    if not sentences:
        hedge = "" if named["green"] and not named["grey"] else "demonstrably "
        none = "none of them" if len(columns) > 1 else "nothing of it"
        sentences.append(f"{who} receives {received} can tell {none} {hedge}a tenth better than it could guess.")
    if named["grey"]:
        sentences.append(f"Nothing was shown either way of {len(named['grey'])} ({listed(named['grey'])}).")
    return sentences


def _not_measured(facts: JudgeFacts, findings: PredictionFindings) -> list[str]:
    sentences = [f"Judged: {judged_words(findings).replace('test record', 'record')}."] if findings.records else []
    if facts.known:
        sentences.append(
            f"Lights are for who has {counted(facts.known, 'record')} in full. What others learn, who know means only "
            f"or nothing, was not measured{'' if facts.label else ', and neither were labels'}."
        )
    return [*sentences, *(f"{name}, which was received, is {why}." for name, why in facts.left_out.items())]
