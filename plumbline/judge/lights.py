"""The rule of lights, in one place; docs/measure.md states it, with reasons. What isn't shown is grey, never green.

A column is judged on means (squared errors, or wrong names of categories) and, if it is of numbers, on persons: on
records that aren't read nearly exactly. A skewed one is judged on means of a log scale as well. Its light is the worst
of these. Each has a part of what a guess leaves unknown, level by level; beyond chance is what any attack's test shows
beside those of all other attacks, columns and levels (``LevelVerdict.corrected``):

======  ================================================================================================
red     beyond chance at the headline's level, and half of what was unknown, or more
amber   beyond chance at that level or one that knows more, and a tenth or more (``LEAST_PART``)
green   attacks were judged at the headline's level, and at each level from there on the interval's upper end is below
        a tenth
grey    else: nothing was measured, fewer than 50 persons judge, nothing is unknown, or not shown either way; and for
        green where a column was made a code, by how often a value occurs: amounts among its texts weren't measured.
        Fewer than 20 complete records show nothing of who knows some
======  ================================================================================================
"""

from collections.abc import Sequence
from typing import Literal

from attacks import LEVELS, Level
from plumbline.judge.evidence import ColumnLevels, SourceVerdict
from plumbline.judge.federation_part import HEADLINE, LEAST_PART, LevelVerdict, at
from plumbline.judge.training import TrainingFinding
from plumbline.telling.document import Light

# From this share of what was unknown on, a leak is red: most of what there was to protect is gone.
RED_PART = 0.5
# From this share on, what training gave away besides labels is more than rounding and luck.
AMBER_SHARE = 0.05
# Fewer records than this, those of one person counted once, are too few to say anything.
LEAST_RECORDS = 50
# Levels beyond the headline's.
KNOWING_MORE = LEVELS[LEVELS.index(HEADLINE) + 1 :]
_WORST: tuple[Light, ...] = ("red", "amber", "grey", "green")


def worst(lights: Sequence[Light]) -> Light:
    """Find the worst of several lights: what wasn't measured comes before what is safe. Grey for none."""
    return next((light for light in _WORST if light in lights), "grey")


def light_of(levels: Sequence[LevelVerdict], headlined: Level = HEADLINE) -> Light:
    """Choose the light of one column or of labels, by one measure, for who knows so much beforehand."""
    headline = at(levels, headlined)
    more = [at(levels, level) for level in LEVELS[LEVELS.index(headlined) + 1 :]]
    if are_too_few(levels):
        return "grey"
    if headline.is_exposed and headline.part is not None and headline.part.mean >= RED_PART:
        return "red"
    if headline.is_exposed or any(one.is_exposed for one in more):
        return "amber"
    return "green" if headline.is_small and all(one.part is None or one.is_small for one in more) else "grey"


def telling(levels: Sequence[LevelVerdict]) -> LevelVerdict:
    """Find the headline's verdict; where it exposes nothing, that of the first level which knows more and does."""
    headline, more = at(levels), (at(levels, level) for level in KNOWING_MORE)
    return headline if headline.is_exposed else next((one for one in more if one.is_exposed), headline)


def are_too_few(levels: Sequence[LevelVerdict]) -> bool:
    """Tell whether so few records judge that nothing can be said."""
    records = at(levels).records
    return records is not None and records < LEAST_RECORDS


def is_open(levels: Sequence[LevelVerdict], headlined: Level = HEADLINE) -> bool:
    """Tell whether what an attack did at the headline's level is shown neither to be a leak nor to be none."""
    headline = at(levels, headlined)
    return headline.part is not None and (are_too_few(levels) or not (headline.is_exposed or headline.is_small))


def light_of_column(verdict: SourceVerdict) -> Light:
    """Choose the worst of its measures; amber, if not worse, where it leaks whether a value is there."""
    light = worst([light_of(levels, verdict.headline) for levels in verdict.measures])
    light = "grey" if light == "green" and verdict.kind == "code" else light
    return "amber" if light in ("green", "grey") and leaks_whether_there(verdict) else light


def rests_on(column: ColumnLevels, light: Light) -> Literal["levels", "logs", "read"]:
    """Tell which measure makes a light red or amber: means, before those on a log scale, before persons."""

    def shows(levels: Sequence[LevelVerdict]) -> bool:
        of_level = column.headline
        return bool(levels) and (
            light_of(levels, of_level) == "red" if light == "red" else at(levels, of_level).is_exposed
        )

    return "levels" if shows(column.levels) else "logs" if shows(column.logs) else "read"


def leaks_whether_there(verdict: SourceVerdict) -> bool:
    """Tell whether it is given away which records have a value at all."""
    return bool(verdict.missing) and light_of(verdict.missing, verdict.headline) in ("red", "amber")


def is_of_few(finding: TrainingFinding) -> bool:
    """Tell whether so few records judge what an attack on training found, besides labels, that nothing can be said."""
    return finding.judged is not None and finding.judged < LEAST_RECORDS


def light_of_training(finding: TrainingFinding) -> Light:
    """Judge what an attack on training gave away: labels by the federation's part, else by the share it got right.

    Labels of the rarest class are told by the order that an attack puts records into, too; where chance may be what
    finds a tenth of them or more, nothing is shown either way. Products are sums over a
    party's columns, so they are amber at most.
    """
    if finding.levels:
        light = light_of(finding.levels)
        if finding.rarest is None or finding.rarest.part < LEAST_PART or are_too_few(finding.levels):
            return light
        if not finding.rarest.is_told:
            return worst([light, "grey"])
        return worst([light, "red" if finding.rarest.part >= RED_PART else "amber"])
    if not finding.is_scored or is_of_few(finding):
        return "grey"
    share = finding.success * finding.resolved
    if share >= RED_PART and finding.kind != "products":
        return "red"
    return "amber" if share >= AMBER_SHARE else "green"
