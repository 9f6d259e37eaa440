"""From verdicts to the answer: short sentences about the federation, and what each party risks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from attacks.base import NEEDS
from attacks.registry import CHOOSING, REPLACING, spec_of
from plumbline.judge.answer import (
    ONCE_IT_KNOWS,
    Answer,
    ColumnAnswer,
    PartyAnswer,
    column_sentence,
    judged_words,
    label_sentences,
    listed,
    once_it_knows,
    quoted,
    short,
    together,
)
from plumbline.judge.evidence import ColumnLevels, SourceVerdict
from plumbline.judge.federation_part import HEADLINE, at
from plumbline.judge.hidden_sums import RECORDS_NOT_MEASURED, known_words, knows_records, unmeasured_sums
from plumbline.judge.lights import (
    KNOWING_MORE,
    LEAST_RECORDS,
    are_too_few,
    is_of_few,
    is_open,
    light_of,
    light_of_column,
    light_of_training,
    rests_on,
    telling,
    worst,
)
from plumbline.judge.predictions import AttackFinding, PredictionFindings
from plumbline.judge.session_sentences import (
    is_untried,
    label_limit_sentence,
    labels_untried,
    limit_sentence,
    sessions_behind,
    told_by_one,
)
from plumbline.judge.summary import RunSummary
from plumbline.judge.training import TrainingFinding
from plumbline.judge.unread_sums import unread_sums
from plumbline.telling.document import LIGHT_WORDS, Light
from plumbline.telling.numbers import percent
from services.common.run_records import DONE, FAILED
from vfl.data.faults import counted

# What a sentence calls parties that nobody gave a title.
_ROLES = {"active": "the active party", "passive": "the passive party"}
# What a black box shows itself by.
_KEPT = NEEDS["prediction"]["weights_passive"]
# How columns are told, by their light and the measure that it rests on; then by what else one must know, and of gaps.
_TOLD: dict[tuple[Light, str], str] = {
    ("red", "levels"): "far better{}",
    ("red", "logs"): "far better{} on a log scale",
    ("red", "read"): "far more often nearly exactly{}",
    ("amber", "levels"): "somewhat better{}",
    ("amber", "logs"): "somewhat better{} on a log scale",
    ("amber", "read"): "somewhat more often nearly exactly{}",
    **{("amber", words): f"better{{}} once it knows {words}" for words in ONCE_IT_KNOWS.values()},
    ("amber", ""): "better{}, but only whether a value is there",
}
# Names of columns in a sentence that has one group of them, or several.
_MOST_NAMES, _FEW_NAMES = 5, 3
_THAN = " than it could guess"


@dataclass(frozen=True)
class _Case:
    """One run, as the answer is made of it."""

    summary: RunSummary
    predictions: PredictionFindings
    training: Sequence[TrainingFinding]
    titles: Mapping[str, str]

    def title(self, party: str) -> str:
        """Name a party as a person does."""
        return short(self.titles.get(party) or _ROLES.get(party, party))

    @property
    def active(self) -> str:
        """Title of the party with the labels."""
        return self.title(self.summary.agreement.active.name)

    @property
    def passive(self) -> list[str]:
        """Names of the others."""
        return [one.name for one in self.summary.parties[1:]]

    @property
    def labels(self) -> list[TrainingFinding]:
        """Attacks on labels that are judged."""
        return [one for one in self.training if one.levels]

    @property
    def is_in_the_clear(self) -> bool:
        """Whether it trained without encryption; an installed model trains nothing."""
        plan = self.summary.agreement.plan
        return not plan.is_encrypted and plan.family.spec.trains

    @property
    def replacing(self) -> list[str]:
        """Names of attacks on ciphertexts that are on what is trained."""
        return [name for name in REPLACING if spec_of(name).is_on(self.summary.agreement.plan.learner)]

    @property
    def forwards(self) -> bool:
        """Whether the label party reads sums of a first layer, in training and after."""
        return self.summary.agreement.plan.family.spec.answers == "sums"

    @property
    def unmeasured_sums(self) -> str:
        """What to say of the hidden sums of training where nothing was measured of them; empty where it was."""
        return unmeasured_sums(self.training) if self.forwards else ""

    @property
    def untried_sessions(self) -> str:
        """What to say of labels after further sessions, where these tell more; empty where one session's is all."""
        if not self.labels:
            return ""
        return labels_untried(self.predictions.limit, self.summary.agreement, self.label_defences)

    @property
    def label_defences(self) -> Sequence[str]:
        """Names of what the label party defends itself by."""
        return self.summary.defences.get(self.summary.agreement.active.name, ())

    @property
    def honest(self) -> list[str]:
        """Names of the parties that could have sent something else, and were never tried as such."""
        if self.is_in_the_clear or not self.summary.agreement.plan.family.spec.trains:
            return []
        tried = {one.party for one in self.training if one.conduct != "listens" and one.status != FAILED}
        return [one.name for one in self.summary.parties if one.name not in tried]


def answer_of(
    summary: RunSummary, predictions: PredictionFindings, training: Sequence[TrainingFinding], titles: Mapping[str, str]
) -> Answer:
    """Say what a run gave away; ``titles``: what a person calls each party, where that isn't its name."""
    case = _Case(summary, predictions, training, titles)
    columns = _ranked(predictions)
    parties = (_active_answer(case), *(_passive_answer(case, party, columns) for party in case.passive))
    limits = [limit_sentence(predictions.limit, columns, summary.agreement)]
    if case.labels:
        limits.append(label_limit_sentence(predictions.limit, summary.agreement, case.label_defences))
    sentences = [*_columns_sentences(case, columns), *_training_sentences(case), _labels_sentence(case)]
    return Answer(
        sentences=(*sentences, *_insecure(case)),
        light=worst([one.light for one in parties]),
        parties=parties,
        columns=columns,
        labels=tuple(label_sentences(training)),
        not_measured=tuple(_not_measured(case, columns)),
        label_levels=tuple(one.levels for one in case.labels),
        rarest=tuple(one.rarest.part for one in case.labels if one.rarest is not None and one.rarest.is_told),
        sessions=" ".join(filter(None, limits)),
    )


def _at_start(title: str) -> str:
    """Begin a sentence with a title: a role is a word, any other is a name and stays as it is."""
    return title[0].upper() + title[1:] if title in _ROLES.values() else title


# -- columns -----------------------------------------------------------------------------------------------------------


def _ranked(predictions: PredictionFindings) -> tuple[ColumnAnswer, ...]:
    """Rank columns, the most exposed first: by its light, its part at the headline's level, then at higher ones.

    Of one light, sensitive columns come before the others.
    """

    def rank(column: ColumnAnswer) -> tuple[int, bool, float, float]:
        parts = {verdict.level: -1.0 if verdict.part is None else verdict.part.mean for verdict in column.levels}
        most = max(parts[level] for level in KNOWING_MORE)
        return [*LIGHT_WORDS].index(column.light), column.role != "sensitive", -parts[HEADLINE], -most

    return tuple(sorted(map(_column_answer, predictions.verdicts), key=rank))


def _column_answer(verdict: SourceVerdict) -> ColumnAnswer:
    shared = {one.name: getattr(verdict, one.name) for one in fields(ColumnLevels)}
    return ColumnAnswer(**shared, light=light_of_column(verdict), sentence=column_sentence(verdict))


def _is_measured(columns: Sequence[ColumnAnswer]) -> bool:
    """Tell whether any column was attacked by who knows no more than means and frequencies, on enough records."""
    return any(one.light != "grey" or (at(one.levels).attack and not are_too_few(one.levels)) for one in columns)


def _columns_sentences(case: _Case, columns: Sequence[ColumnAnswer]) -> list[str]:
    """Say what the active party can reconstruct of all passive columns."""
    passive = together([case.title(name) for name in case.passive])
    if not _is_measured(columns):
        return [f"What {case.active} can reconstruct of the columns of {passive} was not measured: {_why_not(case)}."]
    several = len(case.passive) > 1
    these = f"these {len(columns)} columns" if len(columns) > 1 else "this one column"
    if left_out := sum(case.predictions.left_out.values()):
        these += f" ({left_out} more left out)"
    is_black_box = any(_KEPT in one.reason for one in case.predictions.attacks)
    parameters = f" and {'keep their' if several else 'keeps its'} parameters secret" if is_black_box else ""
    if case.predictions.kept:
        parameters = f" and {'disclose their' if several else 'discloses its'} parameters"
    sessions = sessions_behind(case.predictions.limit, columns)
    after, alone = "If", list(filter(None, [case.predictions.trained.control]))
    if sessions > 1:
        after, alone = f"After {sessions} sessions: if", [f"One session alone tells {told_by_one(columns)}.", *alone]
    who = f"{after} {passive} {'join' if several else 'joins'} with {these}{parameters}, {case.active}"
    told = [_reconstructed(case, columns, who), *_left_open(case, columns), *_of_sensitive(case, columns)]
    return [*told, *alone, *_if_kept(case, sessions)]


def _of_sensitive(case: _Case, columns: Sequence[ColumnAnswer]) -> list[str]:
    """Say what becomes of the columns that their owners call sensitive."""
    sensitive = [one for one in columns if one.role == "sensitive"]
    which = "none is shown to be told" if any(one.light == "grey" for one in sensitive) else "none can be told"
    if leaking := [one for one in sensitive if one.light in ("red", "amber")]:
        which = f"{len(leaking)} can be told better than by guessing: {_names(case, leaking)}"
    return [f"Of {counted(len(sensitive), 'sensitive column')}, {which}."] if sensitive else []


def _if_kept(case: _Case, sessions: int) -> list[str]:
    """Say what is left where passive parties keep the parameters that they disclosed in so many sessions here."""
    if not case.predictions.kept:
        return []
    columns = tuple(map(_column_answer, case.predictions.kept_verdicts))
    keep, their = ("keep", "their") if len(case.passive) > 1 else ("keeps", "its")
    if not _is_measured(columns):
        return [f"What is left without {their} parameters was not measured."]
    passive = together([case.title(name) for name in case.passive])
    # No attack without parameters puts sessions together.
    after = "After one session: if" if sessions > 1 else "If"
    return [_reconstructed(case, columns, f"{after} {passive} {keep} {their} parameters, {case.active}")]


def _why_not(case: _Case) -> str:
    too_few = f"{judged_words(case.predictions)}, are too few to judge, {LEAST_RECORDS} are needed"
    if not case.predictions.attacks:
        return "no attack on predictions was mounted"
    if any(one.mse is not None and one.sees_scores for one in case.predictions.attacks):
        if case.predictions.sources and not any(at(one.levels).attack for one in case.predictions.sources):
            return "only attacks that know more than means and frequencies were mounted, and these found nothing"
        return too_few
    attacks = [one for one in case.predictions.attacks if one.sees_scores]
    if attacks and not case.predictions.records and not any(one.reason for one in attacks):
        return too_few
    return "no attack on predictions could be carried out" if attacks else "only guesses without scores were mounted"


def _reconstructed(case: _Case, columns: Sequence[ColumnAnswer], who: str) -> str:
    """Say how many columns are told, as many as the matrix counts, and how; ``who`` begins the sentence."""
    leaking = [one for one in columns if one.light in ("red", "amber")]
    kinds = [_how_told(one) for one in leaking]
    by_kind = {its: [one for one, kind in zip(leaking, kinds, strict=True) if kind == its] for its in _TOLD}
    groups = [(_TOLD[its], group) for its, group in by_kind.items() if group]
    if not leaking:
        measures = [levels for one in columns for levels in one.measures]
        adverb = "demonstrably " if any(is_open(one) or not at(one).attack for one in measures) else ""
        whom = "none of them" if len(columns) > 1 else "nothing of it"
        alone = " by predictions alone" if case.forwards else ""
        return f"{who} can reconstruct {whom} {adverb}a tenth better than it could guess{alone}."
    count = "it" if len(columns) == 1 else f"{'all' if len(leaking) == len(columns) else len(leaking)} of them"
    how = f"{groups[0][0].format(_THAN)} ({_names(case, leaking)})"
    if len(groups) > 1:
        phrases = [f"{len(some)} {words.format('')} ({_names(case, some, _FEW_NAMES)})" for words, some in groups]
        how = f"better{_THAN}: {', '.join(phrases)}"
    return f"{who} can reconstruct {count} {how}."


def _how_told(column: ColumnAnswer) -> tuple[Light, str]:
    """Choose how a column is told: as its light rests on, or once more is known, or whether a value is there."""
    if column.light == "red" or column.is_exposed():
        return column.light, rests_on(column, column.light)
    return "amber", once_it_knows(column)


def _left_open(case: _Case, columns: Sequence[ColumnAnswer]) -> list[str]:
    """Say of which columns nothing is shown, and why."""
    grey = [one for one in columns if one.light == "grey"]
    anyway = [one for one in grey if _is_known_anyway(one)]
    coded = [one for one in grey if one not in anyway and one.kind == "code"]
    groups = {
        "Nothing is left to give away of": anyway,
        "Not measured as a number, but as a code:": coded,
        "Nothing was shown either way of": [one for one in grey if one not in anyway and one not in coded],
    }
    return [f"{words} {_names(case, group)}." for words, group in groups.items() if group]


def _is_known_anyway(column: ColumnAnswer) -> bool:
    """Tell whether guesses know a column, so that an attack on it has nothing to tell."""
    headline = at(column.levels)
    return bool(headline.attack) and headline.part is None and not any(map(is_open, column.measures))


def _names(case: _Case, columns: Sequence[ColumnAnswer], most: int = _MOST_NAMES) -> str:
    """Names of columns, with their owners' where there are several."""
    if len(case.passive) == 1:
        return listed([one.column for one in columns], most, quoted)
    return listed([f"{quoted(one.column)} of {case.title(one.party)}" for one in columns], most, str)


# -- labels, and what training gave away else --------------------------------------------------------------------------


def _labels_sentence(case: _Case) -> str:
    """Say what is told of labels, or why that isn't known."""
    if not case.labels:
        has_answer = all(one.kind != "labels" or one.status != DONE for one in case.training)
        why = "" if has_answer else ": attacks on them had no answer"
        return f"What {together(list(map(case.title, case.passive)))} can tell of labels was not measured{why}."
    if told := _told(case):
        return told
    if all(are_too_few(one.levels) for one in case.labels):
        return f"What can be told of labels was not measured: fewer than {LEAST_RECORDS} records judge it."
    if all(light_of_training(one) == "green" for one in case.labels):
        return "No label attack did a tenth better than guessing."
    return "Whether labels can be told a tenth better than by guessing is not shown either way."


def _told(case: _Case) -> str:
    """Say how many labels the best attack on them tells; empty where none does better than guessing."""
    verdicts = [(one, telling(one.levels)) for one in case.labels if light_of(one.levels) in ("red", "amber")]
    shares = [(1 - (one.e0 if one.error is None else one.error), 1 - one.e0, who, one) for who, one in verdicts]
    if not shares:
        return _told_of_rarest(case)
    right, guessed, finding, verdict = max(shares, key=lambda one: one[0])
    who, whose = _at_start(case.title(finding.party)), "the labels that were trained on"
    condition = " once it knows some labels" if verdict.level == "records" else ""
    return f"{who} can tell {percent(right)} of {whose}{condition}, {percent(guessed)} by guessing."


def _told_of_rarest(case: _Case) -> str:
    """Say how well records of the rarest class are found where names tell nothing; empty where they aren't."""
    findings = [one for one in case.labels if one.rarest is not None and light_of_training(one) in ("red", "amber")]
    precisions = [(one.rarest.precision, one.rarest.share, one) for one in findings if one.rarest is not None]
    if not precisions:
        return ""
    right, share, finding = max(precisions, key=lambda one: one[0])
    return (
        f"{_at_start(case.title(finding.party))} can tell which records are likely of the rarest class: "
        f"{percent(right)} of those it would pick are, {percent(share)} by guessing."
    )


def _training_sentences(case: _Case) -> list[str]:
    """Say the worst of what training gave away besides labels."""
    leaks = sorted(filter(_is_leak, case.training), key=lambda one: -one.success)
    if not leaks and any(one.is_scored and is_of_few(one) for one in case.training):
        return [f"What training tells besides labels was not measured: {LEAST_RECORDS} records are needed to judge it."]
    if not leaks or not leaks[0].peers:
        return []
    peers = together([case.title(peer) for peer in leaks[0].peers])
    return [f"{_at_start(case.title(leaks[0].party))} can {_leak_words(leaks[0])} {peers}."]


def _is_leak(finding: TrainingFinding) -> bool:
    """Tell whether an attack on training found something else than labels, beyond luck; none that plants."""
    is_judged = finding.is_scored and not finding.levels and finding.kind != "backdoor"
    return is_judged and light_of_training(finding) in ("red", "amber")


def _leak_words(finding: TrainingFinding) -> str:
    """Say what it found, up to whose that is."""
    if finding.kind == "products":
        return f"follow {percent(finding.success)} of the differences between training records' scores that come from"
    if finding.kind == "estimates":
        records = f"the training records{known_words(finding.attack)}"
        return f"take {percent(finding.success)} off a guess's error about {records} of"
    return f"read {percent(finding.success * finding.resolved)} of the columns of"


def _insecure(case: _Case) -> list[str]:
    if case.is_in_the_clear:
        return ["Training was not encrypted (INSECURE)."]
    return ["Settings were insecure, see the warnings."] * any("INSECURE" in one for one in case.summary.warnings)


# -- parties -----------------------------------------------------------------------------------------------------------


def _active_answer(case: _Case) -> PartyAnswer:
    name = case.summary.agreement.active.name
    lights = [light_of_training(one) for one in case.labels]
    return _party_answer(case, name, lights, [_labels_sentence(case)], _untried_on_labels(case))


def _passive_answer(case: _Case, party: str, columns: Sequence[ColumnAnswer]) -> PartyAnswer:
    party_columns = [one for one in columns if one.party == party]
    paragraphs = [f"Its columns were not measured: {_why_not(case)}."]
    if _is_measured(party_columns):
        sessions = sessions_behind(case.predictions.limit, party_columns, party)
        after = f"After {sessions} sessions, of" if sessions > 1 else "Of"
        who = f"{after} its {counted(len(party_columns), 'column')}, {case.active}"
        paragraphs = [_reconstructed(case, party_columns, who), *_left_open(case, party_columns)]
    lights = [one.light for one in party_columns]
    if case.unmeasured_sums:
        paragraphs.append(case.unmeasured_sums)
        lights.append("grey")
    untried = _untried_on_columns(case)
    if is_untried(case.predictions.limit, party_columns):
        untried.append("What further sessions tell was not measured.")
    return _party_answer(case, party, lights, paragraphs, untried)


def _party_answer(
    case: _Case, party: str, lights: Sequence[Light], paragraphs: Sequence[str], untried: Sequence[str]
) -> PartyAnswer:
    """Judge the party: its light and words, with what training gave away of its columns, and why it isn't green."""
    leaks = [one for one in case.training if _is_leak(one) and party in one.peers]
    also = [f"{_at_start(case.title(one.party))} can {_leak_words(one)} this party, by {one.attack}." for one in leaks]
    training_lights = list(map(light_of_training, leaks))
    light = worst([*lights, *training_lights])
    if untried or (case.unmeasured_sums and party in case.passive):
        training_lights.append("grey")
    if light == "green" and untried:
        light, also = "grey", [*also, *untried]
    text = " ".join([*paragraphs, *also])
    return PartyAnswer(party, light, text, case.title(party), worst([*training_lights, "green"]))


def _untried_on_labels(case: _Case) -> list[str]:
    """Say what might have told labels, and was not tried or failed."""
    parties = {one.party for one in case.labels}
    silent = [case.title(name) for name in case.passive if name not in parties]
    without = [f"What {together(silent)} can tell of them was not measured."] if silent else []
    failed = [one.attack for one in case.training if one.party in case.passive and one.status == FAILED]
    later = [case.untried_sessions] if case.untried_sessions else []
    unread = unread_sums(case.training, case.summary.agreement, {name: case.title(name) for name in sorted(parties)})
    return [*without, *unread, *later, *_untried(case, [one for one in case.honest if one in case.passive], failed)]


def _untried_on_columns(case: _Case) -> list[str]:
    """Say what might have told columns, and was not tried or failed."""
    active = case.summary.agreement.active.name
    failed = [one.attack for one in case.predictions.attacks if one.sees_scores and one.status == FAILED]
    failed += [one.attack for one in case.training if one.party == active and one.status == FAILED]
    return [*case.predictions.untried, *_untried(case, [name for name in case.honest if name == active], failed)]


def _untried(case: _Case, honest: Sequence[str], failed: Sequence[str]) -> list[str]:
    paragraphs = ["What only ciphertexts can tell was not measured."] if case.is_in_the_clear else []
    if honest:
        who = together([case.title(one) for one in honest])
        paragraphs.append(f"What {who} can tell by other messages was not measured.")
    return [*paragraphs, f"Not known, for it failed: {listed(failed)}."] if failed else paragraphs


# -- what this run can say nothing of ----------------------------------------------------------------------------------


def _not_measured(case: _Case, columns: Sequence[ColumnAnswer]) -> list[str]:
    sentences = list[str]()
    if not _is_measured(columns) or case.predictions.untried:
        sentences.append(f"What predictions give away of columns was not measured: {_why_not(case)}.")
    if case.unmeasured_sums:
        sentences.append(case.unmeasured_sums)
    if case.forwards and not any(map(knows_records, case.training)):
        sentences.append(RECORDS_NOT_MEASURED)
    if not case.labels:
        sentences.append("What training gives away of labels was not measured: no attack on labels is judged.")
    if case.untried_sessions:
        sentences.append(case.untried_sessions)
    if case.is_in_the_clear:
        named = f" ({', '.join(case.replacing)})" if case.replacing else ""
        sentences.append(f"What only ciphertexts can tell{named} was not measured: training was not encrypted.")
    if case.honest:
        sentences.append(_untried_messages(case))
    everything: list[AttackFinding | TrainingFinding] = [*case.predictions.attacks, *case.training]
    failed = [one.attack for one in everything if one.status == FAILED]
    if failed:
        sentences.append(f"Failed, so that what they would have told is unknown: {listed(failed)}.")
    return sentences


def _untried_messages(case: _Case) -> str:
    """Say that nobody sent other messages than the protocol's, and how to try it."""
    agreement, plan = case.summary.agreement, case.summary.agreement.plan
    honest = {name: case.title(name) for name in case.honest}
    who = f"What {together(list(honest.values()))} can tell by replacing messages was not measured"
    if most := plan.training.deviation(agreement, honest):
        is_shown = not plan.training.conduct_refusal(CHOOSING, spec_of(CHOOSING).conduct)
        return f"{who}. {most}{f': {CHOOSING} (--attacks) shows it' if is_shown else ''}."
    if not case.replacing:
        return f"{who}: no attack of that kind is on learner={plan.learner}."
    return f"{who}: try it by {' or '.join(case.replacing)} (--attacks)."
