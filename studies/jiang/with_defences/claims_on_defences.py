"""What section 6.2 says of defences in Figures 14 and 15, and how a run is put to it."""

from collections.abc import Iterator
from functools import partial

import pandas as pd

from studies.claims.claim import Claim, Finding
from studies.claims.kinds import listed, where
from studies.claims.statement import Statement, interval_over
from studies.jiang.paired_points import KINDS, Difference, difference, judged_on, names_in, told
from studies.page.elements import number_words

# Falls that count: of the attack's accuracy, of the model's.
_DISTINCT, _NEGLIGIBLE = 0.1, 0.02
_SOURCES = {"linear": "6.2, Figure 14", "network": "6.2, Figure 15"}
_ACCESSES, _NO_DEFENCE = ("white box", "black box"), ("none", "")


_RANDOM, _REAL = "random scores", "real scores"


def _change(
    rows: pd.DataFrame, measure: str, one: tuple[str, str], other: tuple[str, str]
) -> Iterator[tuple[str, Difference]]:
    """What one defence (family, option) has more of a measure than another, by data set and access, where measured."""
    for name in names_in(rows):
        for access in _ACCESSES:
            of = where(rows, dataset=name, access=access)
            left, right = (where(of, defence=family, option=option) for family, option in (one, other))
            if (found := difference(left, right, measure)) is not None:
                yield f"{name}, {access}", found


def _both(
    rows: pd.DataFrame, one: tuple[str, str], other: tuple[str, str]
) -> Iterator[tuple[str, Difference, Difference]]:
    """The changes of attack and of model accuracy, where both were measured."""
    models = dict(_change(rows, "model_accuracy", one, other))
    for name, attack in _change(rows, "attack_accuracy", one, other):
        if name in models:
            yield name, attack, models[name]


def _unchanged(rows: pd.DataFrame) -> Finding:
    measures = ("attack_accuracy", "mse", "model_accuracy")
    found = [dict(_change(rows, measure, ("psi", ""), _NO_DEFENCE)) for measure in measures]
    means = {name: [one[name].mean.mean for one in found] for name in found[0] if all(name in one for one in found)}
    return listed(
        "Attack accuracy, error and model accuracy with PSI less those without",
        means,
        lambda changes: not any(changes),
        lambda changes: ", ".join(map(number_words, changes)),
    )


def _defended(family: str, option: str, rows: pd.DataFrame, *, protects: bool | None, costs: bool | None) -> Finding:
    """A test of a defence. protects: attack accuracy falls; costs: the model's does; None: unsaid."""
    held, said = [], []
    for name, attack, model in _both(rows, (family, option), _NO_DEFENCE):
        if protects is not None:
            # A wide interval shows neither: what doesn't protect surely takes less than that away.
            fell = attack.is_below and attack.mean.mean < -_DISTINCT
            held.append(fell if protects else attack.mean.low >= -_DISTINCT)
        if costs is not None:
            held.append((model.mean.mean < -_NEGLIGIBLE) == costs)
        said.append(f"{name}: {attack.words} and {model.words}")
    lead = f"Paired changes of attack and of model accuracy (counting falls of more than {_DISTINCT} and "
    return Finding(held, f"{lead}{_NEGLIGIBLE} in the mean): {'; '.join(said)}." if said else "")


def _smaller_budget(rows: pd.DataFrame) -> Finding:
    found = dict(_change(rows, "attack_accuracy", ("dp_sgd", "epsilon 0.1"), ("dp_sgd", "epsilon 10")))
    return told("Paired change of attack accuracy from epsilon 10 to 0.1", found, lambda change: change.is_below)


def _random_purifier(rows: pd.DataFrame) -> Finding:
    both = _both(rows, ("purification", _RANDOM), ("purification", _REAL))
    return listed(
        "Attack and model accuracy with random less with real training scores (better: the attack's falls, the model's "
        f"doesn't by more than {_NEGLIGIBLE})",
        {name: (attack, model) for name, attack, model in both},
        lambda found: found[0].is_below and found[1].mean.mean >= -_NEGLIGIBLE,
        lambda found: f"{found[0].words} and {found[1].words}",
    )


_NO_MORE_TO_LOSE = "Where the attack's accuracy is that of a guess before any defence, it has nothing distinct to lose."
_CLAIMS = (
    Claim("6.2", "PSI is unable to prevent the attack.", _unchanged),
    Claim(
        "6.2",
        "With a large budget, DP-SGD can't prevent the attack.",
        partial(_defended, "dp_sgd", "epsilon 10", protects=False, costs=None),
    ),
    Claim(
        "6.2",
        "With a small budget, attack accuracy falls, and model accuracy with it.",
        partial(_defended, "dp_sgd", "epsilon 0.1", protects=True, costs=True),
        _NO_MORE_TO_LOSE,
    ),
    Claim(
        "6.2",
        "Noise of sigma 0.1: a relatively good balance.",
        partial(_defended, "score_noise", "sigma 0.1", protects=True, costs=False),
        _NO_MORE_TO_LOSE,
    ),
    Claim(
        "6.2",
        "Too much noise may lead to significant loss of utility.",
        partial(_defended, "score_noise", "sigma 1", protects=None, costs=True),
        possible=True,
    ),
    Claim(
        "6.2",
        "Rounding to integers, only the label: a distinct reduction of attack accuracy, free of cost.",
        partial(_defended, "score_rounding", "0 decimals", protects=True, costs=False),
        "Scores rounded to integers tell no class where none reaches one half, and decide for the first one then; "
        + _NO_MORE_TO_LOSE,
    ),
    Claim(
        "6.2",
        "Only returning the label: a distinct reduction of attack accuracy, free of cost.",
        partial(_defended, "class_label", "", protects=True, costs=False),
        _NO_MORE_TO_LOSE,
    ),
    *(
        Claim(
            "6.2",
            f"{words}: satisfactory protection at negligible loss of utility.",
            partial(_defended, "purification", option, protects=True, costs=False),
            _NO_MORE_TO_LOSE,
        )
        for option, words in ((_REAL, "Purification"), (_RANDOM, "Purification trained on random scores"))
    ),
    Claim("6.2", "The attack accuracy falls with a smaller epsilon.", _smaller_budget, _NO_MORE_TO_LOSE),
    Claim(
        "6.2",
        "A purifier trained on random scores reaches an even better trade-off than one trained on real scores.",
        _random_purifier,
    ),
)


def trade_off_statements(data: pd.DataFrame) -> list[Statement]:
    """Judge what section 6.2 says of Figures 14 and 15, from rows of the section's ``data``."""
    published = where(data, adversary="inversion")
    return [
        one
        for kind, source in _SOURCES.items()
        for one in judged_on(KINDS[kind], _CLAIMS, where(published, model=kind), source)
    ]


def trade_off_notes(data: pd.DataFrame) -> Iterator[str]:
    """What the adversary who knows each defence still gets beyond what it knew, and how this was run."""
    done = where(data)
    for kind, words in KINDS.items():
        own = where(done, model=kind)
        if len(own) and "federation_part" in own.columns:
            yield from _left(own, words)
    if len(done) and "dp_sgd" not in set(done["defence"]):
        yield "dp_sgd was not measured: it needs opacus (pip install 'plumbline[lab]')."
    yield (
        "PSI aligns records by ids and touches neither features nor scores; who asks for a prediction knows whose it "
        "is. DP-SGD protects the records that a model was trained on, and the attacked ones are others. Auxiliary "
        "records' scores are defended like all others. A purifier trained on the coordinator's own history is the one "
        "secret here: the adversary who knows all else can't undo it, and keeps to its prior."
    )


def _left(own: pd.DataFrame, words: str) -> Iterator[str]:
    """The federation's part max(0, 1 - e / e0) under each defence, mean over data sets and windows."""
    for adversary, knows in (("posterior, half", "nothing"), ("posterior, records", "tau complete records")):
        rows = where(own, adversary=adversary, access="white box").dropna(subset=["federation_part"])
        said = []
        for family, option in rows[["defence", "option"]].drop_duplicates().to_numpy().tolist():
            part = interval_over(where(rows, defence=family, option=option), "federation_part", ("dataset", "start"))
            said.append(f"{family} {option}".strip() + f" {part.mean:.0%}")
        if said:
            yield (
                f"{words}, white box, an adversary that knows the defence, and {knows} beforehand: the federation's "
                f"part of what it learns, mean over data sets: {', '.join(said)}."
            )
