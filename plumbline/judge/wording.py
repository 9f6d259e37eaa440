"""From verdicts to the answer: a light and a sentence for every column and party, and one sentence for all of them."""

from collections.abc import Mapping, Sequence

from attacks import Level
from plumbline.judge.answer import HEADLINE, Answer, ColumnAnswer, Light, PartyAnswer
from plumbline.judge.federation_part import LevelVerdict
from plumbline.judge.predictions import PredictionFindings
from plumbline.judge.summary import RunSummary
from plumbline.judge.training import TrainingFinding

# From this share of what was unknown on, a leak is red.
RED_PART = 0.5
_WORST: tuple[Light, ...] = ("red", "amber", "grey", "green")


def at(levels: Sequence[LevelVerdict], level: Level = HEADLINE) -> LevelVerdict:
    """The verdict of one level."""
    return next(one for one in levels if one.level == level)


def worst(lights: Sequence[Light]) -> Light:
    """The worst of several lights: what wasn't measured comes before what is safe; grey for none."""
    return next((light for light in _WORST if light in lights), "grey")


def light_of(levels: Sequence[LevelVerdict]) -> Light:
    """Red from half of what was unknown, amber beyond chance at the headline's level or one that knows more."""
    headline = at(levels)
    if headline.is_exposed and headline.part is not None and headline.part.mean >= RED_PART:
        return "red"
    if any(one.is_exposed for one in levels if one.level != "nothing"):
        return "amber"
    return "green" if headline.attack else "grey"


def answer_of(
    summary: RunSummary,
    predictions: PredictionFindings,
    training: Sequence[TrainingFinding],
    titles: Mapping[str, str],
) -> Answer:
    """Say what a run gave away; ``titles``: what a person calls each party, where that isn't its name."""
    columns = tuple(
        ColumnAnswer(one.party, one.column, "number", light_of(one.squared), one.squared, one.column, (index,))
        for index, one in enumerate(predictions.columns)
    )
    labels: list[Light] = [light_of(one.levels) for one in training if one.levels]
    parties = tuple(
        PartyAnswer(
            party.name,
            light := worst(labels if number == 0 else [one.light for one in columns if one.party == party.name]),
            f"{titles.get(party.name, party.name)}: {light}",
            titles.get(party.name, party.name),
        )
        for number, party in enumerate(summary.parties)
    )
    exposed = [one.column for one in columns if one.light in ("red", "amber")]
    return Answer(
        sentence=f"{len(exposed)} of {len(columns)} columns are exposed.",
        light=worst([one.light for one in parties]),
        parties=parties,
        columns=columns,
    )
