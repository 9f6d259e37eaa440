"""Boosted trees as a training protocol: bins' sums under the label party's key, and routes told to all."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

from defences.base import Stage
from services.common import limits
from services.common.agreement import Agreement, TrainingPlan
from services.common.costs import Cost, Operations
from services.common.errors import InvalidMessage, OutOfOrder
from services.common.exposure import Exposure, Guarded, GuardedParty, ToldEquations
from services.common.protocols import TrainingProtocol
from services.party.resumption import Resumption
from services.party.side import SideSetting
from services.protocols.planned_batches import planned_batches
from services.protocols.trees.served_leaves import LeavesOnShares
from services.protocols.trees.tree_messages import TreeTerms
from services.protocols.trees.tree_side import TreeSide
from vfl.arrays import IntArray
from vfl.crypto import PackingImpossible
from vfl.crypto.bin_sums import SumLayout
from vfl.crypto.ciphers import Paillier
from vfl.learning import RowSplit
from vfl.learning.trees.boosted_trees import BoostedTrees

_LESS = "To tell less, grow fewer trees (n_estimators), or join with whom you would trust so far."
# Of a row's route: a node of the six levels at most.
_KEPT_BYTES = 64


@dataclass(frozen=True)
class TreeTraining(TrainingProtocol[TrainingPlan, Agreement]):
    """Trees that are grown split by split: the label party reads bins' sums, all read which rows go where."""

    name: ClassVar[str] = "trees"
    unprotected: ClassVar[frozenset[Stage]] = frozenset(
        {"residuals", "labelled_residuals", "hidden", "answers", "updates"}
    )
    summary: ClassVar[str] = "Boosted trees: the label party reads sums of bins, and all see which rows go where."
    remedy: ClassVar[str] = (
        "Grow trees on the label party's own columns first, which nobody hears of (own_trees of the learner's options)."
    )

    def check(self, plan: TrainingPlan) -> None:
        """Refuse other learners, and what trees do without."""
        learner = plan.family
        if not isinstance(learner, BoostedTrees):
            raise InvalidMessage(
                f"protocol=trees grows trees, and learner={plan.learner} has none: set learner=boosted_trees (it "
                "trains under protocol=trees with cipher=paillier, or plain: INSECURE), or another protocol."
            )
        if plan.is_encrypted and not isinstance(plan.encryption, Paillier):
            raise InvalidMessage(
                f"protocol=trees has no cipher={plan.cipher}: set cipher=paillier, or plain: INSECURE."
            )
        if plan.is_encrypted and not (plan.packing and plan.rerandomise):
            raise InvalidMessage("protocol=trees packs and rerandomises every sum: set packing and rerandomise on.")
        if learner.outputs(2) > limits.SHARE_VALUES:
            raise InvalidMessage(
                f"{learner.n_estimators:,} trees of {learner.leaves} leaves answer with more numbers than a message "
                f"has, {limits.SHARE_VALUES:,}: choose fewer (n_estimators), or a smaller max_depth."
            )

    def refusal(self, plan: TrainingPlan, settings: Any) -> str:
        """Refuse a kernel that adds up no lists of ciphertexts."""
        return "PLUMBLINE_KERNEL=phe adds up no bins: choose another kernel here." if settings.kernel == "phe" else ""

    def conduct_refusal(self, attack: str, conduct: str) -> str:
        """Refuse what replaces anything but what a party asks."""
        return "" if conduct == "replaces_requests" else super().conduct_refusal(attack, conduct)

    def cipher_of_trials(self, plan: TrainingPlan) -> str:
        """Take the session's: what is decrypted is told."""
        return plan.cipher

    def warnings(self, agreement: Agreement) -> list[str]:
        """Say what no cipher hides."""
        active = agreement.active.name
        others = " and ".join(party.name for party in agreement.parties[1:])
        sentences = [
            f"Trees tell {others} which rows go left at every split: rows of a leaf tend to have one label.",
            f"Trees tell {active} the sums over every bin of {others}'s columns: after some trees, which rows are in "
            "which bin.",
        ]
        if not agreement.plan.is_encrypted:
            sentences.append(
                f"INSECURE: cipher={agreement.plan.cipher}, {others} read derivatives of every record, and so labels."
            )
        return sentences

    def deviation(self, agreement: Agreement, parties: Mapping[str, str]) -> str:
        """Say what chosen derivatives, and chosen sums, tell."""
        active, learner, said = agreement.active.name, _learner(agreement), list[str]()
        if active in parties:
            chosen = _layout(agreement).slot_bits - 2
            said.append(
                f"With powers of two in place of derivatives {parties[active]} reads in each node's sums, exactly, "
                f"which of some {chosen} rows that it chooses are in which bin of every column"
            )
        said += [
            f"With other sums than its bins' {parties[party.name]} reads {_bits(agreement, party.name):.1f} bits in "
            f"each split, {(1 << learner.max_depth) - 1} splits a tree at most, of labels that it chooses"
            for party in agreement.parties[1:]
            if party.name in parties
        ]
        return ". ".join([*said, "Nothing prevents it"]) if said else ""

    def no_slope(self, agreement: Agreement) -> str:
        """Say that trees' scores are no products of weights."""
        return "Trees have no weights that a slope could scale."

    def kept_bytes(self, agreement: Agreement, features: int) -> int:
        """Count a tree's nodes."""
        return _learner(agreement).leaves * _KEPT_BYTES

    def told_equations(self, plan: TrainingPlan, classes: int) -> ToldEquations:
        """Count each question on a record's way as an equation, though it only tells on which side it is."""
        depth = cast(BoostedTrees, plan.family).max_depth
        return ToldEquations(of_model=depth * plan.epochs, of_epoch=depth)

    def told_rows(self, agreement: Agreement, rows: RowSplit) -> IntArray:
        """List those that are trained on."""
        return rows.train

    def batches(self, agreement: Agreement) -> Iterator[IntArray]:
        """List all training rows for each tree."""
        return planned_batches(agreement)

    def served(self, agreement: Agreement) -> LeavesOnShares:
        """Have records' leaves found on shares."""
        return LeavesOnShares(agreement)

    def side(self, setting: SideSetting, first_step: int = 0) -> TreeSide:
        """Make a party's side."""
        return TreeSide(setting, first_tree=first_step)

    def resumes(self, agreement: Agreement) -> bool:
        """Go on from the last whole tree: what is said in one that grows again is what was said before."""
        return True

    def resumed(self, setting: SideSetting, side: TreeSide, resumption: Resumption) -> TreeSide:
        """Make the side that grows further trees, with the same half and under the same key."""
        return TreeSide(setting, side.half, resumption.step)

    def guard(self, agreement: Agreement, party: GuardedParty) -> Guarded:
        """Warn each party of what it tells; a guard that refuses lets no trees be grown."""
        if party.mode == "off":
            return Guarded()
        learner, active = _learner(agreement), agreement.active.name
        others = " and ".join(one.name for one in agreement.parties[1:])
        if party.name == active:
            warning = (
                f"{others} could learn labels of {active}'s records: they are told which rows go left at every split "
                f"of {learner.n_estimators} trees, and rows of a leaf tend to have one label, and trees "
                f"agree along the direction of labels. No cipher hides it. {self.remedy} {_LESS}"
            )
        else:
            warning = (
                f"{active} could learn which bin, of {learner.max_bin}, each training record is in, in every column of "
                f"{party.name}'s: it reads the sums of every bin in every node of {learner.n_estimators} trees. {_LESS}"
            )
        if party.mode == "refuse":
            raise OutOfOrder(f"{warning} (PLUMBLINE_GUARD=refuse)")
        return Guarded([warning])

    def cost(self, agreement: Agreement) -> Cost:
        """Count a tree's encryptions, additions into bins, squarings of packing and decryptions, at their most."""
        learner, rows = _learner(agreement), agreement.training_rows
        layout, nodes = _layout(agreement), _asked_nodes(learner)
        of_step = {}
        answers = 0.0
        for party in agreement.parties[1:]:
            packed = layout.ciphertexts_for(nodes * party.feature_count * learner.max_bin)
            # The root, and of each level below the smaller half.
            added = rows * party.feature_count * (1 + (learner.max_depth - 1) / 2)
            of_step[party.name] = Operations(packed, added + packed * layout.slots * layout.slot_bits, 0)
            answers += packed
        return Cost({agreement.active.name: Operations(rows, 0, answers), **of_step}, awaited=agreement.active.name)

    def exposures(self, agreement: Agreement) -> tuple[Exposure, ...]:
        """Count sums, routes and splits."""
        learner, active, rows = _learner(agreement), agreement.active.name, agreement.training_rows
        trees, splits = learner.n_estimators, (1 << learner.max_depth) - 1
        found = list[Exposure]()
        for party in agreement.parties[1:]:
            sums = 2 * trees * _asked_nodes(learner) * learner.max_bin
            found += [
                Exposure(
                    active,
                    party.name,
                    f"sums of g and h over {learner.max_bin} bins of each column, in up to {_asked_nodes(learner)} "
                    f"nodes of each of {trees} trees; and which rows go left at each split",
                    f"which bin each of {rows:,} records is in, in each of {party.name}'s columns",
                    sums,
                    rows,
                    "From the second tree on, by and by: a record's bin stays, and each node adds two sums of it. Of a "
                    "small table a tenth of the bins after five trees, most after twenty.",
                    trees > 1,
                ),
                Exposure(
                    party.name,
                    active,
                    f"which rows go left at each split, up to {splits} in each of {trees} trees",
                    f"{active}'s labels",
                    trees,
                    1,
                    "From the third tree on, with no label known: trees agree along the direction of labels.",
                    True,
                ),
                Exposure(
                    party.name,
                    active,
                    f"which of its candidates gains most: {_bits(agreement, party.name):.1f} bits a split",
                    f"{active}'s labels",
                    trees * splits,
                    rows,
                    "By listening they say what routes say. A party that sends other sums chooses what they say.",
                    False,
                    math.ceil(trees * splits * _bits(agreement, party.name)),
                ),
            ]
            if not agreement.plan.is_encrypted:
                found.append(
                    Exposure(
                        party.name,
                        active,
                        "g and h of each record of each tree, in the clear",
                        f"{active}'s labels",
                        2 * rows * trees,
                        rows,
                        "From the first tree on: the sign of g is the label.",
                        True,
                    )
                )
        return tuple(found)


def _learner(agreement: Agreement) -> BoostedTrees:
    return cast(BoostedTrees, agreement.plan.family)


def _asked_nodes(learner: BoostedTrees) -> int:
    """Count the nodes of a tree whose sums are sent, at most: the root, and of two children one."""
    return 1 << learner.max_depth - 1


def _bits(agreement: Agreement, name: str) -> float:
    """Count the bits that a split tells its owner at most."""
    learner, columns = _learner(agreement), agreement.party(name).feature_count
    return math.log2(1 + columns * learner.max_bin)


def _layout(agreement: Agreement) -> SumLayout:
    try:
        # In the clear as well, of which sizes are said beforehand.
        return replace(TreeTerms.of(agreement), key_bits=agreement.plan.key_bits).layout
    except PackingImpossible as error:
        raise InvalidMessage(str(error)) from error
