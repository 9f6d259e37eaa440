"""What a person reads of leaks."""

from dataclasses import replace

from plumbline.judge.answer import (
    distinct_levels,
    label_sentences,
    part_words,
)
from plumbline.judge.federation_part import LevelVerdict
from plumbline.judge.measures import Interval
from plumbline.judge.training import TrainingFinding
from tests.harness.findings import attack, column, findings, levels


def test_what_has_no_part_says_why() -> None:
    assert part_words(LevelVerdict("nothing", "its mean", 1e-6, "ls", 0.0)) == "known anyway"
    assert part_words(LevelVerdict("nothing", "its mean", 0.1)) == "not measured"


def test_only_levels_at_which_something_differs_have_a_column() -> None:
    plain = findings(attack("ls", column("a", 0.05)))
    assert distinct_levels(plain) == ["nothing", "marginals"]
    informed = findings(replace(attack("posterior", column("a", 0.05)), level="records"))
    assert distinct_levels(informed) == ["nothing", "marginals", "records"]


def test_labels_are_told_beside_their_frequencies_and_an_own_classifier() -> None:
    found = TrainingFinding("label_recovery", "passive", "", 1.0, "labels", 0.95, 1.0, levels=levels("x", 0.04))
    known = replace(found.levels[3], baseline="own classifier from 100 labels", part=Interval(0.2, 0.1, 0.3))
    (sentence,) = label_sentences([replace(found, levels=(*found.levels[:3], known))])
    assert sentence == (
        "labels: the federation gives passive 60 % (55 to 65) of what was unknown at level marginals, by "
        "label_recovery. To its own classifier from 100 labels it gives 20 % (10 to 30) of what that leaves unknown."
    )
    (nothing,) = label_sentences([replace(found, levels=levels("x", 0.2))])
    assert nothing == "labels: label_recovery told passive under a tenth of what was unknown."
    assert label_sentences([replace(found, levels=())]) == []
