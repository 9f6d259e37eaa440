"""Everything that a run tells an auditor: summary, what attacks found, the answer to a person, defences tried."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, overload

from plumbline.judge import Progress, silent
from plumbline.judge.answer import Answer, listed
from plumbline.judge.column_sets import WhatIf
from plumbline.judge.glance import glance_at, joining_words
from plumbline.judge.joining import changes_beside, stakes_of
from plumbline.judge.malicious_session import MaliciousSession, read_malicious_session
from plumbline.judge.persons import PersonFindings, read_person_findings
from plumbline.judge.plain_twin import PlainTwin, cost_words, plain_twin
from plumbline.judge.predictions import AttackFinding, PredictionFindings, read_prediction_findings
from plumbline.judge.record_risks import RecordRisks
from plumbline.judge.sentences import answer_of
from plumbline.judge.session_sentences import labels_untried, sessions_behind
from plumbline.judge.summary import RunSummary, read_summary
from plumbline.judge.trained_columns import read_trained_columns
from plumbline.judge.training import TrainingFinding, read_training_findings
from plumbline.judge.variant_results import VariantResult, result_of, then_how, variant_words
from plumbline.telling.document import Glance, Light
from plumbline.telling.numbers import hundredths, percent
from services.common.run_files import RunFolderError
from services.common.run_folder import RunFolder
from services.common.run_records import content_of
from services.common.words import escaped
from vfl.crypto.ciphers import IN_THE_CLEAR


@dataclass(frozen=True)
class DefenceTrial:
    """One defence, or several together, in a federation of the same tables, split and seeds.

    Attributes:
        defence: its name, or several with `` + `` between them; ``black box`` where parameters are kept instead.
        options: of the defences; empty for the defaults.
        holds: whether an adversary that knows of it is shown to get under a tenth of what leaked, at level marginals.
        part: the largest federation's part that is left there, of columns and labels, 0 to 1; None where none was
            measured.
        exposed: number of columns and of attacks on labels that still tell a tenth or more, beyond chance; None where
            the federation wasn't run.
        accuracy: of the test records; None where the federation wasn't run, or not to its end.
        accuracy_change: accuracy less that of the run without the defence.
        seconds: that its training takes more than training without it, under the trial's cipher both.
        bytes: that all its messages take more than without it, likewise.
        cipher: that of the trial.
        reason: why it can't be said to hold; empty where the numbers say it.
        stakes: the lights of columns, labels and persons that it leaves; empty where the federation wasn't run.
    """

    defence: str
    options: Mapping[str, Any] = field(default_factory=dict)
    holds: bool = False
    part: float | None = None
    exposed: int | None = None
    accuracy: float | None = None
    accuracy_change: float = 0.0
    seconds: float = 0.0
    bytes: int = 0
    cipher: str = IN_THE_CLEAR
    reason: str = ""
    stakes: Mapping[str, Light] = field(default_factory=dict)

    @property
    def was_run(self) -> bool:
        """Whether its federation was run to its end. What it would leave isn't known otherwise."""
        return self.accuracy is not None


def recommended(trials: Sequence[DefenceTrial]) -> DefenceTrial | None:
    """Choose the cheapest that holds: least accuracy lost, then least time, then the one tried first; None without."""
    holding = [one for one in trials if one.holds]
    # A defended model that happens to do better isn't cheaper than free.
    return min(holding, key=lambda one: (max(0.0, -one.accuracy_change), one.seconds), default=None)


def recommendation_words(trials: Sequence[DefenceTrial]) -> str:
    """Say in a sentence which defence to take, and what it costs; empty where none was tried."""
    if not trials:
        return ""
    run = [one for one in trials if one.was_run]
    missing = [one.defence for one in trials if not one.was_run]
    if not run:
        return f"None of the {len(trials)} defences could be tried ({listed(missing)}): no light follows. See why."
    unmeasured = f" {len(missing)} of {len(trials)} weren't run ({listed(missing)}): what they leave isn't known."
    return _of_those_run(run, "that was run and holds" if missing else "that holds") + (unmeasured if missing else "")


def _of_those_run(run: Sequence[DefenceTrial], which: str) -> str:
    best = recommended(run)
    if best is None:
        measured = [one for one in run if one.part is not None]
        closest = min(measured, key=lambda one: (one.exposed or 0, one.part or 0.0), default=None)
        nearest = (
            f" {closest.defence} comes closest: {closest.exposed} {'leak' if closest.exposed == 1 else 'leaks'}, the "
            f"largest with a part of {percent(closest.part)}."
            if closest
            else ""
        )
        if len(run) == 1:
            return f"The only defence that was tried, {run[0].defence}, doesn't hold.{nearest}"
        return f"None of the {len(run)} defences that were tried holds.{nearest}"
    lost = max(0.0, -best.accuracy_change)
    price = f"{hundredths(lost, 1)} points of accuracy" if lost else "no accuracy"
    more = f", {best.seconds:.1f} s of training and {best.bytes / 1e6:.1f} MB" if best.bytes > 0 else ""
    price += more or f" and {best.seconds:.1f} s of training"
    return f"The cheapest defence {which} is {best.defence}: it costs {price}."


Finding = AttackFinding | TrainingFinding


@dataclass(frozen=True, eq=False)
class Findings(Sequence[Finding]):
    """What one run gave away. As a sequence: what each attack found, those on predictions first.

    Attributes:
        summary: the run's terms, quality, times and traffic.
        predictions: what attacks on predictions reconstructed, and the verdicts.
        training: what attacks on training found.
        answer: the verdict in words, with lights.
        trials: defences that were tried, with what they left of the leak.
        variants: the run and others of its request beside it, each in a federation of its own; empty for it alone.
        what_if: what fewer columns would give away; None where nobody asked.
        folder: what the parties wrote of the run; None where these findings are of no run on disk.
        persons: what is told of persons.
        record_risks: the risk of each record, party by party: for its owner's eyes, and in no file of the whole.
        plain: what a plain model of the same columns predicts; None where there is none.
        malicious: the session of attacks that sent other messages than the protocol's; None without any.
    """

    summary: RunSummary
    predictions: PredictionFindings
    training: tuple[TrainingFinding, ...]
    answer: Answer
    trials: tuple[DefenceTrial, ...] = ()
    variants: tuple[VariantResult, ...] = ()
    what_if: WhatIf | None = None
    folder: RunFolder | None = None
    persons: PersonFindings = field(default_factory=PersonFindings)
    record_risks: tuple[RecordRisks, ...] = field(default=(), repr=False)
    plain: PlainTwin | None = None
    malicious: MaliciousSession | None = None

    @property
    def glance(self) -> Glance:
        """The answer in one sentence, whether to join, and a matrix of lights."""
        agreement = self.summary.agreement
        defences = self.summary.defences.get(agreement.active.name, ())
        is_all = not labels_untried(self.predictions.limit, agreement, defences)
        columns, parties = self.answer.columns, self.answer.parties
        glance = glance_at(self.predictions, self.training, columns, parties, self.persons, labels_are_all=is_all)
        measured = {variant_words(one.variant): one.stakes for one in self.variants[1:]}
        measured |= {f"the defence {one.defence}": one.stakes for one in self.trials}
        return replace(glance, joining=joining_words(stakes_of(glance), changes_beside(glance, measured, self.what_if)))

    @property
    def cost_words(self) -> str:
        """The model's quality beside its plain twin's, in a line; empty without one."""
        return cost_words(self.summary, self.plain)

    @property
    def malicious_words(self) -> str:
        """Which attacks had a session of their own, and what it did and cost; empty without one."""
        return "" if self.malicious is None else self.malicious.words(self.summary)

    def __len__(self) -> int:
        return len(self.predictions.attacks) + len(self.training)

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Finding]: ...
    def __getitem__(self, index: int | slice) -> Finding | Sequence[Finding]:
        findings: tuple[Finding, ...] = (*self.predictions.attacks, *self.training)
        return findings[index]

    def in_short(self, variant: str) -> VariantResult:
        """Sum up the run, to stand beside others; ``variant``: what it differs in from them."""
        sessions = sessions_behind(self.predictions.limit, self.answer.columns)
        result = result_of(variant, self.summary, self.answer, self.predictions, self.training, sessions)
        return replace(result, stakes=stakes_of(self.glance))

    def as_dict(self) -> dict[str, Any]:
        """Write everything as JSON has it: plain lists and dictionaries; ``results.json`` of an audit."""
        return {
            **asdict(self.summary),
            "agreement": content_of(self.summary.agreement),
            "predictions": content_of(self.summary.predictions),
            "quality_notes": list(self.summary.quality_notes),
            **asdict(self.predictions),
            "training_attacks": [asdict(finding) for finding in self.training],
            "answer": {"sentence": self.answer.sentence, **asdict(self.answer)},
            "glance": asdict(self.glance),
            "persons": asdict(self.persons),
            "plain": None if self.plain is None else asdict(self.plain),
            "malicious": None if self.malicious is None else asdict(self.malicious),
            "largest_part": self.answer.largest_part,
            "trials": [asdict(one) for one in self.trials],
            "variants": [asdict(one) for one in self.variants],
            "then_how": then_how(self.variants),
            "what_if": None if self.what_if is None else asdict(self.what_if),
        }


def read_findings(
    folder: RunFolder,
    passive_names: Sequence[str],
    name: str,
    *,
    titles: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Findings:
    """Judge a run from its folder.

    Args:
        folder: what the parties wrote.
        passive_names: names of the passive parties, in the agreement's order.
        name: of the run.
        titles: what a person calls each party, such as its table's name; its name by default.
        progress: called with what is being judged, how much is done and of how much.

    Raises:
        RunFolderError: when a file is missing or broken, or no session began.
    """
    summary = read_summary(folder, name)
    report = progress or silent
    predictions = read_prediction_findings(folder, passive_names, progress=report)
    training = tuple(read_training_findings(folder, progress=report))
    names = {party.name for party in summary.parties}
    if strangers := [escaped(one.party, 200) for one in training if one.party not in names]:
        raise RunFolderError(
            f"{folder.path} has a file training-{strangers[0]}.json, of a party that wasn't in the session: remove it."
        )
    predictions = replace(predictions, trained=read_trained_columns(folder, passive_names, training))
    answer = answer_of(summary, predictions, training, titles or {})
    report("persons", 0, 1)
    persons, risks = read_person_findings(folder, summary, predictions, answer.columns)
    report("plain model", 0, 1)
    return Findings(
        summary,
        predictions,
        training,
        answer,
        folder=folder,
        persons=persons,
        record_risks=risks,
        plain=plain_twin(folder, summary),
        malicious=read_malicious_session(folder, training),
    )
