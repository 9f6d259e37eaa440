"""Lights: what is red, amber and green, of columns, of labels and of what training gave away else.

Thresholds and their reasons stand in docs/measure.md. What wasn't measured is grey, and never green.
"""

from collections.abc import Sequence

from plumbline.judge.answer import HEADLINE, Light
from plumbline.judge.federation_part import LevelVerdict, at
from plumbline.judge.training import TrainingFinding
from plumbline.judge.verdicts import SourceVerdict

# From this share of what was unknown on, a leak is red: most of what there was to protect is gone.
RED_PART = 0.5
# From this share on, what training gave away besides labels is more than rounding and luck.
AMBER_SHARE = 0.05
_WORST: tuple[Light, ...] = ("red", "amber", "grey", "green")


def worst(lights: Sequence[Light]) -> Light:
    """The worst of several lights: what wasn't measured comes before what is safe. Grey for none."""
    return next((light for light in _WORST if light in lights), "grey")


def light_of(levels: Sequence[LevelVerdict]) -> Light:
    """Red from half of what was unknown at the headline's level; amber beyond chance there or for who knows more.

    Grey where nobody tried at the headline's level, or on so few records that a leak worth red may hide in chance.
    """
    headline = at(levels, HEADLINE)
    if headline.is_exposed and headline.part is not None and headline.part.mean >= RED_PART:
        return "red"
    if headline.is_closer or any(one.is_exposed for one in levels if one.level != "nothing"):
        return "amber"
    return "green" if headline.attack and not is_open(levels) else "grey"


def is_open(levels: Sequence[LevelVerdict]) -> bool:
    """Whether chance could hide what would be red at the headline's level: of too few records, nobody can say."""
    headline = at(levels, HEADLINE)
    return headline.part is not None and not headline.is_exposed and headline.part.high >= RED_PART


def light_of_column(verdict: SourceVerdict) -> Light:
    """A column's own; where that is green but whether a value is there was given away, amber."""
    light = light_of(verdict.levels)
    if light == "green" and verdict.missing and light_of(verdict.missing) in ("red", "amber"):
        return "amber"
    return light


def light_of_training(finding: TrainingFinding) -> Light:
    """What an attack on training gave away: labels by the federation's part, anything else by the share it got right.

    Products are sums over a party's columns, so they are amber at most.
    """
    if finding.levels:
        return light_of(finding.levels)
    if not finding.is_scored:
        return "grey"
    share = finding.success * finding.resolved
    if share >= RED_PART and finding.kind != "products":
        return "red"
    return "amber" if share >= AMBER_SHARE else "green"
