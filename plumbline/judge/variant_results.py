"""Variants side by side: what the same tables, split and seeds gave away under each, and what each costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from plumbline.judge.answer import Answer, listed
from plumbline.judge.federation_part import at
from plumbline.judge.predictions import PredictionFindings
from plumbline.judge.summary import RunSummary
from plumbline.judge.training import TrainingFinding
from plumbline.telling.document import Light
from plumbline.telling.numbers import hundredths, percent
from services.common.run_records import DONE, FAILED, AttackStatus
from vfl.data.faults import counted
from vfl.learning.score_quality import area_words

# What attacks that are scored against a guess look for.
LABELS = "labels"
# What a variant is, to a person who doesn't know its setting.
_IN_WORDS = {"protocol=shared": "training on shared weights", "protocol=hu": "training by Hu's protocol"}


@dataclass(frozen=True)
class AttackTold:
    """What one attack on training told.

    Attributes:
        attack: its name.
        party: who mounted it.
        kind: what it looks for; empty where it wasn't done.
        right: the share that it has right; None where it isn't scored.
        guess: the share of labels that a guess has right; None of what isn't labels.
        is_exposed: whether a tenth of what was unknown of labels is told, beyond chance.
        reason: why it wasn't done.
        status: ``done``, ``not applicable`` or ``failed``.
    """

    attack: str
    party: str
    kind: str = ""
    right: float | None = None
    guess: float | None = None
    is_exposed: bool = False
    reason: str = ""
    status: AttackStatus = DONE


@dataclass(frozen=True)
class VariantResult:
    """What a federation gave away as one variant of a request.

    Attributes:
        variant: what it differs in: ``protocol=shared``, ``learner=network backward=plain``.
        training: what attacks on training told.
        exposed: columns of which a tenth or more is told, beyond chance, be it to who knows more than means.
        columns: that are judged.
        sessions: after how many sessions.
        part: the largest federation's part of a column, at the headline level; None where none was measured.
        accuracy: of the test records.
        auc: likewise.
        seconds: of all epochs.
        bytes: of all messages.
        failed: attacks that failed, on training and on predictions: what they would have told is unknown.
        disclosed: whether parameters that passive parties disclosed entered what is said of columns.
        steps: how many it was trained in, and by what; empty for an installed model.
        attacks: on predictions, that were carried out.
        tested_by_class: test records of each class; empty where an older release didn't count them.
        stakes: the lights of columns, labels and persons; empty where an older release kept none.
    """

    variant: str
    training: tuple[AttackTold, ...]
    exposed: int
    columns: int
    sessions: int
    part: float | None
    accuracy: float
    auc: float
    seconds: float
    bytes: int
    failed: tuple[str, ...] = ()
    disclosed: bool = False
    steps: str = ""
    attacks: tuple[str, ...] = ()
    tested_by_class: tuple[int, ...] = ()
    stakes: Mapping[str, Light] = field(default_factory=dict)

    @property
    def best_on_labels(self) -> AttackTold | None:
        """The attack that has most labels right; None where no attack on labels is judged."""
        attacks = [one for one in self.training if one.guess is not None and one.right is not None]
        return max(attacks, key=lambda one: one.right or 0.0, default=None)

    def told(self, attack: str, party: str) -> AttackTold | None:
        """Say what an attack of a party's told; None where it wasn't mounted."""
        return next((one for one in self.training if (one.attack, one.party) == (attack, party)), None)


def variant_words(variant: str) -> str:
    """Say what a variant is, before the setting that asks for it."""
    return f"{_IN_WORDS[variant]} ({variant})" if variant in _IN_WORDS else f"the setting {variant}"


def result_of(
    variant: str,
    summary: RunSummary,
    answer: Answer,
    predictions: PredictionFindings,
    training: Sequence[TrainingFinding],
    sessions: int,
) -> VariantResult:
    """Sum up a run; ``variant``: what it differs in from those beside it."""
    columns = answer.columns
    parts = [part.mean for one in columns if (part := at(one.levels).part) is not None]
    attacks = []
    for finding in training:
        verdict = at(finding.levels) if finding.levels else None
        right = finding.success if finding.is_scored else None
        if verdict is not None and verdict.error is not None:
            right = 1 - verdict.error
        guess = None if verdict is None else 1 - verdict.e0
        is_exposed = verdict is not None and verdict.is_exposed
        attacks.append(
            AttackTold(
                finding.attack, finding.party, finding.kind, right, guess, is_exposed, finding.reason, finding.status
            )
        )
    return VariantResult(
        variant=variant,
        training=tuple(attacks),
        exposed=sum(one.light in ("red", "amber") for one in columns),
        columns=len(columns),
        sessions=sessions,
        part=max(parts, default=None),
        accuracy=summary.accuracy,
        auc=summary.auc,
        seconds=sum(epoch.seconds for epoch in summary.epochs),
        bytes=summary.total_bytes,
        failed=tuple(
            [one.attack for one in predictions.attacks if one.status == FAILED]
            + [f"{one.attack} by {one.party}" for one in training if one.status == FAILED]
        ),
        disclosed=bool(predictions.kept),
        steps=_steps_words(summary),
        attacks=tuple(one.attack for one in predictions.attacks if one.status == DONE and one.sees_scores),
        tested_by_class=summary.tested_by_class,
    )


def headings_of(results: Sequence[VariantResult]) -> list[str]:
    """Name what stands above each result's column: with more than two, values alone, for there is little room."""
    if len(results) < 3:
        return [one.variant for one in results]
    return [" ".join(term.partition("=")[2] for term in one.variant.split()) for one in results]


def rows_of(results: Sequence[VariantResult]) -> list[tuple[str, ...]]:
    """Make a table of results side by side: what a row is of, and a cell for each result.

    An attack has a row where it told something of any of them, or failed.
    """
    kinds = {
        (one.attack, one.party): one.kind
        for result in results
        for one in sorted(result.training, key=lambda one: one.right is not None)
        if one.right is not None or one.status == FAILED
    }
    names = sorted(kinds, key=lambda key: kinds[key] != LABELS)
    rows = [
        (f"{kinds[key]}: {key[0]} by {key[1]}", *(_told_words(result.told(*key)) for result in results))
        for key in names
    ]
    guesses = [one.best_on_labels for one in results]
    labels = sum(kind == LABELS for kind in kinds.values())
    if any(guesses):
        rows.insert(labels, (f"{LABELS}: by guessing", *(percent(one.guess if one else None) for one in guesses)))
    return [
        *rows,
        ("columns exposed", *(_exposed_words(one) for one in results)),
        ("largest part of one", *(percent(one.part) for one in results)),
        ("passive parameters", *("disclosed" if one.disclosed else "kept" for one in results)),
        ("training steps", *(one.steps or "none" for one in results)),
        ("test accuracy", *(f"{one.accuracy:.4f}" for one in results)),
        ("test AUC", *(area_words(one.auc, one.tested_by_class) for one in results)),
        ("training, s", *(f"{one.seconds:.1f}" for one in results)),
        ("on the wire, MB", *(f"{one.bytes / 1e6:.1f}" for one in results)),
    ]


def then_how(results: Sequence[VariantResult]) -> str:
    """Say what another variant leaves of what the first gave away, and what it costs; empty for a single one."""
    if len(results) < 2:
        return ""
    first, *variants = results
    return " ".join(("Then how?", *(_beside(first, other) for other in variants)))


def _beside(first: VariantResult, other: VariantResult) -> str:
    before, after = first.best_on_labels, other.best_on_labels
    sentences = [f"Under {other.variant}, with the same tables, split and seeds,"]
    if before is not None:
        remaining = "no attack on them can be judged" if after is None else _best_words(after)
        if after is not None and not after.is_exposed and other.stakes.get(LABELS) in ("red", "amber"):
            remaining += " by names, though something is told of the rarest class, or to who knows some labels,"
        sentences.append(
            f"of labels {remaining}, where under {first.variant} {_best_words(before)} "
            f"({percent(before.guess)} by guessing)."
        )
    if other.part is None:
        sentences.append(
            f"What its scores tell of columns was not measured: no attack on them could be carried out. "
            f"Under {first.variant} {first.exposed} of {first.columns} columns are exposed."
        )
    else:
        sentences.append(f"{other.exposed} of {other.columns} columns are exposed, where {first.exposed} were.")
    if unlike := _unlike(first, other):
        sentences.append(f"Not like beside like: {'; '.join(unlike)}.")
    if other.failed:
        sentences.append(f"Failed under it, so that what they would have told is unknown: {listed(other.failed)}.")
    lost = max(0.0, first.accuracy - other.accuracy)
    sentences.append(
        f"It costs {hundredths(lost, 1)} points of accuracy, {_times(other.seconds, first.seconds)} the time of "
        f"training and {_times(other.bytes, first.bytes)} the bytes."
    )
    return " ".join(sentences)


def _unlike(first: VariantResult, other: VariantResult) -> list[str]:
    """Say in what the two were judged or trained differently, beside the variant itself."""
    pairs = [
        (counted(one.sessions, "session"), f"{'disclosed' if one.disclosed else 'kept'} parameters", one.steps)
        for one in (first, other)
    ]
    unlike = [f"{now} where there were {before}" for before, now in zip(*pairs, strict=True) if before != now]
    # Of several levels of knowledge only names differ.
    names = [dict.fromkeys(attack.partition("(")[0] for attack in one.attacks) for one in (first, other)]
    missing = [[name for name in names[at] if name not in names[1 - at]] for at in (0, 1)]
    unlike += [f"attacks on scores under {first.variant} alone: {listed(missing[0])}"] if missing[0] else []
    unlike += [f"attacks on scores under {other.variant} alone: {listed(missing[1])}"] if missing[1] else []
    return unlike


def _steps_words(summary: RunSummary) -> str:
    if not summary.steps:
        return ""
    kind = str(summary.agreement.plan.learner_options.get("steps", "")).replace("_", " ")
    return counted(summary.steps, "step") + (f" ({kind})" if kind else "")


def _best_words(attack: AttackTold) -> str:
    if attack.right is None or attack.guess is None or attack.right <= attack.guess:
        return "no attack has more right than a guess"
    return f"{attack.attack} by {attack.party} has {percent(attack.right)} right"


def _exposed_words(result: VariantResult) -> str:
    if result.part is None:
        return "not measured"
    after = f" after {result.sessions} sessions" if result.sessions > 1 else ""
    return f"{result.exposed} of {result.columns}{after}"


def _times(now: float, before: float) -> str:
    return f"{now / before:.2g} times" if before else "more than"


def _told_words(attack: AttackTold | None) -> str:
    if attack is None:
        return "not mounted"
    if attack.right is None:
        return {DONE: "not scored", FAILED: FAILED}.get(attack.status, "can't be mounted")
    return percent(attack.right)
