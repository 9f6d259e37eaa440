"""The plan of an audit as a person reads it, before any of it is done."""

from collections.abc import Iterator

from rich.console import Console
from rich.prompt import Confirm
from rich.table import Table
from rich.text import Text

from plumbline.audit.candidates import most_trials
from plumbline.audit.planning.applicable import MANY_SESSIONS
from plumbline.audit.planning.owners_limit import labels_of
from plumbline.audit.planning.plan import AuditPlan
from plumbline.job_progress import duration_words
from plumbline.judge.answering import ON_CIPHERTEXTS

# A run that takes longer begins when its owner says so.
LONG_SECONDS = 600.0


def print_plan(console: Console, plan: AuditPlan) -> None:
    """Show what will run, under which cipher and why, and how long each stage takes."""
    table = Table(title=f"The plan: about {duration_words(plan.forecast.seconds)} in all")
    table.add_column("stage", style="bold")
    table.add_column("of")
    table.add_column("about", justify="right", no_wrap=True)
    for stage in plan.forecast.stages:
        table.add_row(stage.name, stage.amount, duration_words(stage.seconds))
    console.print(table)
    for sentence in plan_sentences(plan):
        console.print(Text(sentence, "bold red" if "INSECURE" in sentence else ""), highlight=False)


def plan_sentences(plan: AuditPlan) -> Iterator[str]:
    """Say why this cipher, which attacks run and which don't, and what is not measured."""
    yield f"Cipher {plan.cipher.cipher}: {plan.cipher.why}"
    if attacks := plan.request.attacks:
        yield f"Attacks: {', '.join(attacks)}."
    if plan.request.attacks_predictions and plan.attacked < plan.test_records:
        yield (
            f"They reconstruct {plan.attacked:,} of the {plan.test_records:,} test records; "
            f"--set attacked_records={plan.test_records} takes all."
        )
    if plan.limit is not None and labels_of(plan.request.levels, plan.limit):
        yield (
            f"Afterwards {MANY_SESSIONS} puts {plan.limit.sessions} sessions about the same records together, the most "
            f"that PLUMBLINE_MOST_FORMS={plan.limit.share:g} allows: --most-forms says what owners will set."
        )
    if plan.left_out:
        yield f"Left out: {'; '.join(_left_out_by_reason(plan))}."
    if plan.request.try_defences:
        each = sum(stage.seconds for stage in plan.forecast.stages if not _is_encrypted(plan, stage.name))
        yield (
            f"If anything leaks, up to {most_trials(plan.request)} defences are tried afterwards, each in a federation "
            f"of its own over the same tables, split and seeds, in the clear: about {duration_words(each)} each."
        )
        if plan.cipher.is_encrypted and set(plan.request.attacks) & set(ON_CIPHERTEXTS):
            yield (
                "Where an attack on ciphertexts tells labels, they train under Paillier as well: about "
                f"{duration_words(plan.forecast.seconds)} each."
            )
    yield from plan.not_measured


def _is_encrypted(plan: AuditPlan, stage: str) -> bool:
    """Whether a stage takes as long as it does for its cipher, which no trial of a defence has."""
    return stage == "training" and plan.cipher.is_encrypted


def is_agreed(console: Console, plan: AuditPlan) -> bool:
    """Whether a run may begin: a long one is asked about where somebody can answer, unless the request says yes."""
    if plan.forecast.seconds <= LONG_SECONDS or plan.request.assume_yes or not console.is_interactive:
        return True
    question = f"This takes about {duration_words(plan.forecast.seconds)}. Begin?"
    return Confirm.ask(question, console=console, default=True)


def _left_out_by_reason(plan: AuditPlan) -> Iterator[str]:
    reasons = dict.fromkeys(one.reason for one in plan.left_out)
    for reason in reasons:
        names = [one.attack for one in plan.left_out if one.reason == reason]
        yield f"{', '.join(names)} ({reason})"
