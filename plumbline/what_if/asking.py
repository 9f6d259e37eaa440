"""``plumbline whatif``: which columns of an audited run could go or be coarser, at what price, and what confirms it."""

import io
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pandas as pd
from rich.console import Console

from attacks import spec_of
from attacks.registry import ADAPTIVE
from plumbline.audit.candidates import measured_federation, with_candidate
from plumbline.audit.folder import AuditFolder, read_facts, write_what_if
from plumbline.audit.request import AuditRequest
from plumbline.audit.run import prepare, report_again
from plumbline.federation import FederationFailed
from plumbline.job_progress import RunProgress
from plumbline.judge.column_sets import DROP, Change, ColumnSet, WhatIf, by_party, set_of
from plumbline.judge.federation_part import LEAST_PART, at
from plumbline.judge.findings import Findings
from plumbline.own_frames import write_frames
from plumbline.processes import ProcessFailed
from plumbline.telling.numbers import seconds
from plumbline.what_if.measured_sets import measured_sets
from plumbline.what_if.other_settings import candidate_of, named_setting, settings_to_try, together, with_settings
from plumbline.what_if.searching import each_left_out, frontier, most_sets, removals
from plumbline.what_if.sets_ahead import SetsAhead
from plumbline.what_if.simulated_sets import AuditedRun, audited_run
from vfl.data.columns import COARSENINGS
from vfl.data.selection import matches
from vfl.suggestions import did_you_mean

# Records that a step of the search attacks to choose among columns; what it has chosen is measured on all.
_GLANCED_AT = 500


@dataclass(frozen=True)
class Question:
    """What is asked of a run.

    Attributes:
        sets: each is columns to leave out, names and patterns, or with ``=bins4`` to make coarser, and of trees other
            settings, as ``own_trees=30`` or a defence; none is a search.
        confirms: whether the set that comes out is run as a federation, or every set that is named.
        workers: processes; None for the processors of this one.
    """

    sets: tuple[tuple[str, ...], ...] = ()
    confirms: bool = True
    workers: int | None = None


def ask(run: AuditFolder, question: Question, progress: RunProgress) -> WhatIf:
    """Measure sets of a run's columns, write ``whatif.json`` and the run's report anew.

    Raises:
        ValueError: for a run that can't be simulated, columns that there aren't, and a set that leaves a party empty.
        RunFolderError: where a file of the run is missing or broken.
        FederationFailed: where the confirming federation fails; what was simulated is written by then.
    """
    findings = report_again(run)
    audited = audited_run(run.path.resolve())
    sets = [named_changes(audited, names) for names in question.sets]
    attacks = _attacks_on_trees(audited) if audited.grows else _attacks_that_matter(findings)
    # What the replay is off by stands beside all others.
    progress.stage("replaying the audit's own columns")
    (replay,) = _measured(audited, attacks, question, SetsAhead(RunProgress()), 0, [()])
    progress.stage("simulating", "sets of columns")
    ahead = SetsAhead(progress)
    measure = partial(_measured, audited, attacks, question, ahead, 0)
    requested = measure(sets)
    of_run = set_of(findings.answer, (), findings.summary.auc, with_labels=audited.grows)
    what_if = WhatIf(of_run, replay, asked=tuple(requested), attacks=attacks)
    if not requested:
        coarsenings = _coarser(audited, replay)
        able, others = removals(replay), list(settings_to_try(audited.plan)) if audited.grows else []
        ahead.expect(len(able) + len(coarsenings) + len(others) + bool(others))
        without = each_left_out(replay, measure)
        coarser = tuple(measure(coarsenings))
        settings = tuple(measure([(one,) for one in others]))
        settings += tuple(measure([together(settings)])) if settings else ()
        ahead = SetsAhead(progress)
        if replay.exposed and able:
            progress.stage("leaving out one after another", "sets of columns at most")
            ahead.expect(most_sets(len(able)))
        is_large = len(audited.tables.split.test) > _GLANCED_AT
        measure = partial(_measured, audited, attacks, question, ahead, 0)
        glance = partial(_measured, audited, attacks, question, ahead, _GLANCED_AT if is_large else 0)
        what_if = replace(
            what_if,
            without=without,
            frontier=frontier(replay, without, measure, glance, ahead.expect),
            coarser=coarser,
            settings=settings,
        )
    write_what_if(run, what_if)
    candidates = requested or ([what_if.chosen] if what_if.chosen else [])
    # As long as the audit, or less: it has fewer columns.
    took = f"; the audit took {seconds(whole_run)}" if (whole_run := read_facts(run).get("seconds")) else ""
    try:
        for columns in candidates if question.confirms else []:
            progress.stage(f"running a federation {columns.title}{took}")
            what_if = replace(what_if, confirmed=(*what_if.confirmed, confirmed(audited, columns.changes)))
            write_what_if(run, what_if)
    except (FederationFailed, ProcessFailed) as error:
        message = f"What was simulated is in {run.report}. The federation that was to confirm it failed: {error}"
        raise FederationFailed(message) from error
    finally:
        report_again(run)
    return what_if


def named_changes(run: AuditedRun, texts: Sequence[str]) -> tuple[Change, ...]:
    """Say what becomes of the passive parties' columns that names and patterns mean.

    Raises:
        ValueError: for a name that no passive party's column has, and where one would have none left.
    """
    present = {name: [plan.name for plan in run.tables.data[name].table.kept] for name in run.tables.passive_names}
    changes: dict[tuple[str, str], Change] = {}
    for text in texts:
        pattern, equals, kind = text.rpartition("=")
        if not equals or kind not in (DROP, *COARSENINGS):
            setting = named_setting(pattern if equals else text, kind if equals else "") if run.grows else None
            if setting is not None:
                changes["", setting.column] = setting
                continue
            pattern, kind = text, DROP
        owner, colon, bare = pattern.partition(":")
        parties, name = ([owner], bare) if colon and owner in present else (list(present), pattern)
        meant = [Change(party, column, kind) for party in parties for column in matches(name, present[party])]
        if not meant:
            names = [one for of_party in present.values() for one in of_party]
            raise ValueError(
                f"No passive party has a column {name!r} in this run.{did_you_mean(name, names)} --set takes NAME to "
                f"leave it out, or NAME=KIND with KIND one of {', '.join(COARSENINGS)}."
            )
        changes |= {(one.party, one.column): one for one in meant}
    for party, columns in present.items():
        if all(changes.get((party, name), Change(party, name, "")).kind == DROP for name in columns):
            raise ValueError(
                f"{party} would have no column left, and a party without any can't take part: keep at least one of "
                f"{', '.join(columns[:5])}."
            )
    with_settings(run.plan, changes.values())
    return tuple(sorted(changes.values()))


def _coarser(run: AuditedRun, all_columns: ColumnSet) -> list[tuple[Change, ...]]:
    """For each way to be coarser, all columns that leak and can be."""
    leaking = {(one.party, one.column) for one in all_columns.exposed}
    able = [
        (name, plan.name)
        for name in run.tables.passive_names
        for plan in run.tables.data[name].table.kept
        if (name, plan.name) in leaking and plan.encoding != "onehot"
    ]
    return [tuple(sorted(Change(*one, kind) for one in able)) for kind in COARSENINGS] if able else []


def _attacks_on_trees(run: AuditedRun) -> tuple[str, ...]:
    """Take those of the run's attacks that are on trees and follow the protocol."""
    specs = {name: spec_of(name) for name in run.plan.request.adversary.attacks}
    return tuple(name for name, spec in specs.items() if spec.learners and spec.conduct == "listens")


def _attacks_that_matter(findings: Findings) -> tuple[str, ...]:
    """Find the attacks on a session's predictions that found most to who knows no more than the headline's level.

    Where those on several sessions did, the quickest one: they are mounted beside it by themselves.
    """
    headlines = [at(levels) for one in findings.predictions.sources for levels in one.measures]
    telling = [one.attack for one in headlines if one.part is not None and one.part.mean >= LEAST_PART]
    names = dict.fromkeys(name for label in telling if not spec_of(name := label.partition("(")[0]).joins_sessions)
    done = [one for one in findings.predictions.attacks if one.mse is not None and one.sees_scores]
    quickest = min(done, key=lambda one: one.seconds).attack.partition("(")[0] if done else ADAPTIVE
    return tuple(names) or (quickest,)


def _measured(
    run: AuditedRun,
    attacks: tuple[str, ...],
    question: Question,
    ahead: SetsAhead,
    records: int,
    sets: Sequence[tuple[Change, ...]],
) -> Sequence[ColumnSet]:
    return measured_sets(run, sets, attacks, records, question.workers, ahead.measuring(len(sets)))


def confirmed(run: AuditedRun, changes: Sequence[Change]) -> ColumnSet:
    """Run the federation of a set of columns, with every attack of the audit, and judge it; nothing of it stays.

    Raises what ``run_federation`` raises.
    """
    with tempfile.TemporaryDirectory(prefix="confirming-", dir=run.folder.path) as scratch:
        request = _with_own_tables(run, Path(scratch))
        encode = {f"{party}:{name}": kind for party, asked in by_party(changes).items() for name, kind in asked.items()}
        request = with_candidate(request, candidate_of(run.plan, changes), request.federation.cipher).changed(
            encode={**request.tables.encode, **encode}, try_defences=False, listed={}, verbosity="quiet"
        )
        plan, tables = prepare(request, Console(file=io.StringIO()))
        findings = measured_federation(replace(plan, beside=()), request.title, tables, run.folder)
    return set_of(findings.answer, changes, findings.summary.auc, with_labels=run.grows)


def _with_own_tables(run: AuditedRun, folder: Path) -> AuditRequest:
    """Take the run's request, over files in place of a registered data set, which is dealt out whole."""
    request = run.plan.request
    if request.tables.has_tables:
        return request
    frames, files = [], []
    for name, data in run.tables.data.items():
        table = data.table
        frame = table.frame.assign(**{"row id": list(table.ids)})
        frames.append(frame if table.labels is None else frame.assign(**{"class": pd.Series(table.labels)}))
        files.append(folder / f"{name}.parquet")
    write_frames(frames, files)
    active, *passive = map(str, files)
    encode = {plan.name: plan.encoding for data in run.tables.data.values() for plan in data.table.kept}
    sources = {"data": "", "parties": 2, "active": active, "passive": tuple(passive), "label": "class"}
    return request.changed(**sources, id_column="row id", encode=encode)
