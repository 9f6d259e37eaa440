"""``plumbline state``: what a party keeps across restarts. Works on the folder; no service needs to run."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from plumbline.cli.output import AsJson, console_out, plain_errors, print_json

app = typer.Typer(no_args_is_help=True)

_Folder = Annotated[Path | None, typer.Option("--dir", help="The folder; default: PLUMBLINE_STATE_DIR.")]


@app.callback()
def state() -> None:
    """Show what a party keeps across restarts, or forget it."""


@app.command()
def show(folder: _Folder = None, as_json: AsJson = False) -> None:
    """Show whose state it is, which models are in it and how much records were answered about; never a weight or a key.

    Example: PLUMBLINE_STATE_DIR=/var/lib/plumbline plumbline state show
    """
    with plain_errors():
        facts = _facts(_given(folder))
        if as_json:
            print_json(facts)
            return
        console_out.print(f"{facts['folder']}: state of {facts['owner']} ({facts['role']}), version {facts['version']}")
        models = [*_model_lines(facts["models"]), *_session_lines(facts["sessions"])] or ["no model"]
        shares = *_share_lines(facts["training_forms"]), *_sum_lines(facts["label_sums"])
        answer_lines = *_answered_lines(facts["answered"]), *shares
        for line in (*models, *answer_lines, *_opened_lines(facts["opened"]), *_batch_lines(facts["batches"])):
            console_out.print(f"  {line}")


@app.command()
def clear(folder: _Folder = None, yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False) -> None:
    """Forget the models and the answers of a party whose service is stopped; the federation then has to train again.

    The secret of its defences stays: drawn anew, it would tell more. So do the counts of what records were answered
    about, and of what others were opened, and who is in which batch. To forget these too, delete the folder.

    Example: plumbline state clear --dir /var/lib/plumbline --yes
    """
    from services.common.state_folder import StateFolder, owner_of
    from services.coordinator.kept_sessions import DATABASE
    from services.party.served_models import CANDIDATE, SERVED
    from services.party.training_log import OF_A_TRAINING
    from services.passive.submissions import SUBMISSIONS

    with plain_errors():
        path = _given(folder)
        owner = owner_of(path)
        # Held until the command ends: no service starts meanwhile.
        with closing(StateFolder(path, owner)) as state:
            if not yes and not typer.confirm(f"Forget every model of {owner.name} in {path}?"):
                console_out.print("Nothing was changed.")
                return
            for name in (*OF_A_TRAINING, SERVED, CANDIDATE, SUBMISSIONS, DATABASE):
                state.remove(name)
            console_out.print(f"{owner.name} has forgotten its models. Train again.")


def _facts(path: Path) -> dict[str, Any]:
    """Whose state it is, with every model and session in it."""
    from services.common.identity import Role
    from services.common.state_folder import SCHEMA, owner_of, read_state
    from services.coordinator.kept_sessions import DATABASE, look_into
    from services.exchange.opening_ledger import LEDGER, opened_in
    from services.party.equation_count import EQUATIONS, shares_in, spent_in
    from services.party.lasting_batches import BATCHES, batches_in
    from services.party.model_file import summary_of
    from services.party.served_models import CANDIDATE, SERVED

    owner = owner_of(path)
    equations, ledger, batches = (read_state(path, name) for name in (EQUATIONS, LEDGER, BATCHES))
    shares = {} if equations is None else {peer: asdict(one) for peer, one in shares_in(equations).items()}
    has_labels = owner.role == Role.ACTIVE
    contents = {"served": read_state(path, SERVED), "next": read_state(path, CANDIDATE)}
    sessions = look_into(path / DATABASE) if (path / DATABASE).exists() else []
    return {
        "folder": str(path),
        "owner": owner.name,
        "role": str(owner.role),
        "version": SCHEMA,
        "models": {what: asdict(summary_of(content)) for what, content in contents.items() if content is not None},
        "answered": [] if equations is None else [asdict(one) for one in spent_in(equations)],
        "training_forms": {} if has_labels else shares,
        "label_sums": shares if has_labels else {},
        "opened": {} if ledger is None else opened_in(ledger),
        "batches": [] if batches is None else batches_in(batches),
        "sessions": [
            {
                "session_id": kept.agreement.session_id,
                "parties": [party.name for party in kept.agreement.parties],
                "is_served": kept.is_served,
                "kept_at": kept.kept_at,
                "aligned_rows": kept.agreement.active.aligned_rows,
                "classes": kept.agreement.classes,
                "score_defences": list(kept.agreement.score_defences),
                "submissions": kept.submissions,
                "answers": kept.answers,
            }
            for kept in sessions
        ],
    }


def _given(folder: Path | None) -> Path:
    from services.common.settings import SettingsError, load_settings

    state_folder = folder or load_settings().state_dir
    if state_folder is None:
        raise SettingsError("Which folder? Set PLUMBLINE_STATE_DIR, or give --dir.")
    return state_folder


def _model_lines(models: dict[str, Any]) -> Iterator[str]:
    """Write a party's models, a line each."""
    for what, model in models.items():
        defences = f", scores under {' and '.join(model['score_defences'])}" if model["score_defences"] else ""
        yield (
            f"{'served' if what == 'served' else 'to be served next'}: session {model['session_id']} of "
            f"{', '.join(model['parties'])}, {model['kept_at']}: {model['aligned_rows']} aligned records, "
            f"{model['features']} features here, {model['classes']} classes{defences}; table {model['table']}"
        )


def _session_lines(sessions: list[dict[str, Any]]) -> Iterator[str]:
    """Write a coordinator's sessions, a line each."""
    for session in sessions:
        answers = (
            f"; scores under {' and '.join(session['score_defences'])}: {session['submissions']} shares counted, "
            f"{session['answers']} first answers"
            if session["score_defences"]
            else ""
        )
        yield (
            f"{'served' if session['is_served'] else 'at work, or to be served next'}: session {session['session_id']} "
            f"of {', '.join(session['parties'])}, {session['kept_at']}: {session['aligned_rows']} aligned records, "
            f"{session['classes']} classes{answers}"
        )


def _answered_lines(answers: list[dict[str, Any]]) -> Iterator[str]:
    """Write what each active party was answered about a passive party's records, a line each."""
    for answer in answers:
        yield (
            f"{answer['active']} was answered about {answer['records']} records, most about row {answer['row'] + 1}: "
            f"{answer['most']} of the {answer['features']} independent sums of its columns that tell the whole record"
        )


def _share_lines(shares: dict[str, dict[str, int]]) -> Iterator[str]:
    """Write what training's answers may have told each peer of single records, a line each."""
    for peer, share in shares.items():
        yield (
            f"training may have told {peer} {share['of_a_record']} sums of a record's columns, where it asks otherwise "
            f"than the protocol: {share['in_answers']:,} in all"
        )


def _sum_lines(sums: dict[str, dict[str, int]]) -> Iterator[str]:
    """Write how many sums of labels the label party's answers told each peer, a line each."""
    from services.party.label_sums import WHOLE

    for peer, share in sums.items():
        yield (
            f"{peer} was told up to {share['of_a_record'] / WHOLE:.2f} sums of labels to a record, in all sessions, "
            f"where 1 tells every label; {share['in_answers']:,} in all with those of the same labels told again"
        )


def _opened_lines(opened: dict[str, int]) -> Iterator[str]:
    for owner, bits in opened.items():
        yield (
            f"{owner} was told, by opened weights or by validations on shares, what could carry {bits:,} bits about a "
            "record's labels or columns"
        )


def _batch_lines(federations: list[dict[str, Any]]) -> Iterator[str]:
    """Write what is remembered of each federation's batches, a line each."""
    for federation in federations:
        waiting = (
            f"; {federation['waiting']:,} wait, and newcomers join as a batch of their own once "
            f"{federation['least']:,} have come"
            if federation["waiting"]
            else ""
        )
        yield (
            f"batches of {', '.join(federation['parties'])}: {federation['batches']:,} of {federation['records']:,} "
            f"training records, {federation['validation']:,} validate, {federation['test']:,} are tested{waiting}"
        )
