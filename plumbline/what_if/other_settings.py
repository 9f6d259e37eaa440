"""Settings of a session of boosted trees that may tell less, as changes beside those of columns."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields

from defences.registry import candidates as known_defences
from plumbline.audit.candidates import BLACK_BOX, Candidate, trial_of
from plumbline.audit.plan import ClearPlan
from plumbline.judge.column_sets import DEFENCE, Change, ColumnSet
from services.common.identity import Role
from vfl.learning.trees.boosted_trees import BoostedTrees
from vfl.learning.trees.tree_options import TreeOptions

OPTIONS = tuple(one.name for one in fields(TreeOptions))
# Of defences: the others are of messages that trees don't send, or of parameters that they haven't got.
_STAGES = {"labels", "scores"}
# Of training rows to a node: docs/trees.md has what fewer leave.
_LARGE_NODE = 100


def settings_to_try(plan: ClearPlan) -> Iterator[Change]:
    """List the settings that may tell less than a federation's own, and that it can train by."""
    learner = _learner(plan)
    fewer_trees, coarser, few_bits = max(1, learner.n_estimators // 3), 8, 6
    values = [
        *(("own_trees", more) for more in (10, 30) if more > learner.own_trees),
        *([("n_estimators", fewer_trees)] if fewer_trees < learner.n_estimators else []),
        *([("min_rows_of_a_node", _LARGE_NODE)] if learner.min_rows_of_a_node < _LARGE_NODE else []),
        *([("max_bin", coarser)] if coarser < learner.max_bin else []),
        *([("gradient_bits", few_bits)] if few_bits < learner.gradient_bits else []),
    ]
    tried = [Change("", name, str(value)) for name, value in values]
    tried += [] if plan.request.adversary.black_box else [Change("", BLACK_BOX, DEFENCE)]
    specs = known_defences().items()
    tried += [Change("", name, DEFENCE) for name, spec in specs if set(spec.stages) <= _STAGES and not spec.needs]
    for one in tried:
        try:
            with_settings(plan, [one])
        except ValueError:
            continue
        yield one


def together(sets: Sequence[ColumnSet]) -> tuple[Change, ...]:
    """Join the setting that leaves least of columns and the one that leaves least of labels."""
    of_labels = min(sets, key=lambda one: (one.labels or 0.0, -one.auc))
    of_columns = min(sets, key=lambda one: (one.part, -one.auc))
    return tuple(sorted({*of_labels.changes, *of_columns.changes}))


def named_setting(name: str, value: str) -> Change | None:
    """Read a setting that a person names, as ``own_trees=30`` or the name of a defence; None for anything else."""
    if name in OPTIONS:
        return Change("", name, value)
    return Change("", name, DEFENCE) if not value and name in (BLACK_BOX, *known_defences()) else None


def with_settings(plan: ClearPlan, changes: Iterable[Change]) -> ClearPlan:
    """Change a federation's settings; raises ValueError for what it can't train by."""
    candidate = candidate_of(plan, changes)
    return trial_of(plan, candidate, plan.request.federation.cipher) if candidate != Candidate() else plan


def candidate_of(plan: ClearPlan, changes: Iterable[Change]) -> Candidate:
    """Take those of the changes that are of settings as a candidate of an audit."""
    own = [change for change in changes if not change.party]
    names = [one.column for one in own if one.kind == DEFENCE and one.column != BLACK_BOX]
    specs = known_defences()
    options = {one.column: _number(one) for one in own if one.kind != DEFENCE}
    asked: Mapping[str, object] = plan.recipe.parties[Role.ACTIVE].learner_options
    return Candidate(
        tuple(names),
        {name: specs[name].tried_with for name in names if specs[name].tried_with},
        any(one.column == BLACK_BOX for one in own),
        {"learner_options": {**asked, **options}} if options else {},
    )


def _number(change: Change) -> float:
    try:
        value = float(change.kind)
    except ValueError:
        raise ValueError(f"{change.column}={change.kind}: expected a number.") from None
    return int(value) if value.is_integer() else value


def _learner(plan: ClearPlan) -> BoostedTrees:
    learner = plan.recipe.parties[Role.ACTIVE].plan().family
    assert isinstance(learner, BoostedTrees)  # noqa: S101 - the caller asks for no other
    return learner
