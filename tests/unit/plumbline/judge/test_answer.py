"""What a person reads of leaks."""

from dataclasses import replace

from plumbline.judge.answer import (
    category_name,
    column_name,
    distinct_levels,
    label_sentences,
    more_words,
    part_words,
    ranked,
    verdict_sentences,
)
from plumbline.judge.evidence import CategoryVerdict, ColumnVerdict
from plumbline.judge.federation_part import LevelVerdict
from plumbline.judge.measures import Interval
from plumbline.judge.predictions import PredictionFindings
from plumbline.judge.training import TrainingFinding
from tests.harness.findings import attack, column, findings, levels


def test_a_sentence_names_column_share_interval_level_and_attack() -> None:
    found = findings(attack("half_star", column("nr.employed", 0.057), column("pdays", 0.13)))
    assert verdict_sentences(found) == [
        "nr.employed: the federation gives away 43 % (38 to 48) of what was unknown at level marginals, by half_star.",
        "No attack was shown to tell a tenth of what was unknown of the other column at level marginals.",
    ]


def test_where_nothing_leaked_it_says_so_and_where_nothing_ran_it_says_nothing() -> None:
    assert verdict_sentences(findings(attack("half_star", column("a", 0.2)))) == [
        "No attack was shown to tell a tenth of what was unknown of any column at level marginals."
    ]
    assert verdict_sentences(PredictionFindings()) == []
    zero = replace(attack("zero", column("a", 0.0)), sees_scores=False)
    assert verdict_sentences(findings(zero)) == []


def test_what_only_who_knows_more_is_given_is_told_as_well() -> None:
    """Complete records defeat defences of disclosed parameters: silence at the headline's level would mislead."""
    spared, leaking = levels("half_star", 0.2), levels("posterior", 0.04)
    names = ("a", "b", "c")
    verdicts = tuple(ColumnVerdict("p", name, (*spared[:3], leaking[3]), spared) for name in names)
    beyond = "No attack was shown to tell a tenth of what was unknown of any column at level marginals."
    though = (
        "At level records, though, the federation gives away 60 % (55 to 65) of what was unknown of a, by posterior"
    )
    assert verdict_sentences(PredictionFindings(columns=verdicts)) == [
        beyond,
        f"{though}, and something of 2 more columns.",
    ]
    same = ColumnVerdict("p", "a", (*spared[:2], replace(leaking[3], level="covariance"), leaking[3]), spared)
    told = verdict_sentences(PredictionFindings(columns=(same,)))
    assert [sentence for sentence in told if "though" in sentence] == [f"{though}.".replace("records", "covariance")]
    unmounted = tuple(LevelVerdict(one.level, "its mean", 0.1) for one in spared[:3])
    alone = ColumnVerdict("p", "a", (*unmounted, leaking[3]), spared)
    assert verdict_sentences(PredictionFindings(columns=(alone,))) == [
        "No attack could be mounted that knows no more beforehand than level marginals.",
        f"{though}.",
    ]


def test_columns_that_only_who_knows_more_is_given_come_before_those_that_nobody_is() -> None:
    spared, leaking = levels("half_star", 0.2), levels("posterior", 0.04)
    safe = ColumnVerdict("p", "safe", spared, spared)
    known = ColumnVerdict("p", "known", (*spared[:3], leaking[3]), spared)
    assert [one.column for one in ranked(PredictionFindings(columns=(safe, known)))] == ["known", "safe"]


def test_only_the_most_exposed_are_named_one_by_one() -> None:
    found = findings(attack("ls", *(column(str(number), 0.01 * number) for number in range(1, 8))))
    sentences = verdict_sentences(found, most=2)
    assert [sentence.split(":")[0] for sentence in sentences[:2]] == ["1", "2"]
    assert sentences[2] == "5 more columns are exposed; the report has every column."
    assert verdict_sentences(found, most=6)[6] == "1 more column is exposed; the report has every column."


def test_a_column_has_its_owners_name_where_there_are_several() -> None:
    one, other = (ColumnVerdict(party, "age", levels("ls", 0.05), levels("ls", 0.05)) for party in ("a", "b"))
    assert column_name(one, PredictionFindings(columns=(one,))) == "age"
    assert column_name(one, PredictionFindings(columns=(one, other))) == "age of a"


def test_what_has_no_part_is_not_applicable_and_what_nobody_attacked_is_a_dash() -> None:
    assert part_words(LevelVerdict("nothing", "its mean", 1e-6, "ls", 0.0)) == "n/a"
    assert part_words(LevelVerdict("nothing", "its mean", 0.1)) == "-"


def test_being_right_more_often_is_told_in_points_and_being_right_less_often_as_none() -> None:
    better = LevelVerdict("nothing", "mode", 0.5, "ls", 0.38, None, Interval(0.12, 0.08, 0.16))
    assert more_words(better) == "12.0 (8.0 to 16.0)"
    assert more_words(replace(better, removed=Interval(-0.1, -0.2, 0.1))) == "none"


def test_a_group_is_called_by_its_first_and_last_column() -> None:
    assert category_name(CategoryVerdict("a", ("red", "green", "blue"), 3, ())) == "red ... blue"
    assert category_name(CategoryVerdict("a", ("red",), 2, ())) == "red"


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
