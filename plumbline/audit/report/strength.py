"""Attacks sorted by strength, and the map of columns and attacks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attacks import LEVELS
from plumbline.audit.report.evidence import ColumnEvidence
from plumbline.judge.answer import ColumnAnswer
from plumbline.judge.federation_part import FLOOR, HEADLINE
from plumbline.judge.predictions import AttackFinding
from plumbline.judge.words import own


@dataclass(frozen=True)
class Strength:
    """What one attack on predictions gave away.

    Attributes:
        finding: what it reconstructed.
        parts: the federation's part of each column by this attack alone; None where there is nothing to give away.
        exposed: number of columns of which it told more than chance.
    """

    finding: AttackFinding
    parts: tuple[float | None, ...]
    exposed: int

    @property
    def mean(self) -> float:
        """Mean part over the columns that had something to give away."""
        measured = [part for part in self.parts if part is not None]
        return sum(measured) / len(measured) if measured else 0.0

    @property
    def largest(self) -> float:
        """The largest part of any column."""
        return max((part for part in self.parts if part is not None), default=0.0)

    @property
    def knows_more(self) -> bool:
        """Whether it needs to know more beforehand than the headline's level allows."""
        return LEVELS.index(self.finding.level) > LEVELS.index(HEADLINE)


def by_strength(
    found: Sequence[AttackFinding],
    columns: Sequence[ColumnAnswer],
    evidence: Mapping[ColumnAnswer, ColumnEvidence],
) -> list[Strength]:
    """Sort the attacks that saw scores and ran, the strongest first; its parts are in the order of ``columns``."""
    done = [one for one in found if one.mse is not None and one.sees_scores]
    strengths = [
        Strength(one, tuple(_part(one, column, evidence.get(column)) for column in columns), _exposed(one))
        for one in done
    ]
    return sorted(strengths, key=lambda one: (-one.mean, one.finding.attack))


def _part(finding: AttackFinding, column: ColumnAnswer, evidence: ColumnEvidence | None) -> float | None:
    """The part of one column by one attack, at the headline's level or at its own where that is higher."""
    if evidence is not None and evidence.is_category and finding.attack in evidence.estimates:
        level = max(finding.level, HEADLINE, key=LEVELS.index)
        e0 = next(one.e0 for one in column.levels if one.level == level)
        return max(0.0, 1 - evidence.error(evidence.estimates[finding.attack]) / e0) if e0 >= FLOOR else None
    feature = column.features[0]
    if feature >= len(finding.columns) or not finding.columns[feature].levels:
        return None
    part = own(finding.columns[feature].levels).part
    return None if part is None else part.mean


def _exposed(finding: AttackFinding) -> int:
    return sum(own(column.levels).is_exposed for column in finding.columns if column.levels)
