"""What section 6.2 says of defences, judged from the measurements of Figures 14 and 15."""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from studies.claims.statement import Statement, interval_over
from studies.jiang.paired_points import Judged, difference, where
from studies.page.elements import number_words

# Falls that count: of the attack's accuracy, of the model's.
_DISTINCT, _NEGLIGIBLE = 0.1, 0.02
_SOURCES = {"linear": "6.2, Figure 14", "network": "6.2, Figure 15"}
_NAMES = {"linear": "LR", "network": "networks"}
_ACCESSES = ("white box", "black box")


@dataclass(frozen=True)
class _Claim:
    """What the paper says of a defence. protects: attack accuracy falls; costs: the model's does; None: unsaid."""

    family: str
    option: str
    words: str
    protects: bool | None
    costs: bool | None
    reason: str = ""


_NO_MORE_TO_LOSE = "Where the attack's accuracy is that of a guess before any defence, it has nothing distinct to lose."
_CLAIMS = (
    _Claim("dp_sgd", "epsilon 10", "With a large budget, DP-SGD can't prevent the attack.", False, None),
    _Claim(
        "dp_sgd",
        "epsilon 0.1",
        "With a small budget, attack accuracy falls, and model accuracy with it.",
        True,
        True,
        _NO_MORE_TO_LOSE,
    ),
    _Claim("score_noise", "sigma 0.1", "Noise of sigma 0.1: a relatively good balance.", True, False, _NO_MORE_TO_LOSE),
    _Claim(
        "score_noise",
        "sigma 1",
        "Too much noise may lead to significant loss of utility.",
        None,
        True,
    ),
    _Claim(
        "score_rounding",
        "0 decimals",
        "Rounding to integers, only the label: a distinct reduction of attack accuracy, free of cost.",
        True,
        False,
        "Scores rounded to integers tell no class where none reaches one half, and decide for the first one then; "
        + _NO_MORE_TO_LOSE,
    ),
    _Claim(
        "class_label",
        "",
        "Only returning the label: a distinct reduction of attack accuracy, free of cost.",
        True,
        False,
        _NO_MORE_TO_LOSE,
    ),
    _Claim(
        "purification",
        "real scores",
        "Purification: satisfactory protection at negligible loss of utility.",
        True,
        False,
        _NO_MORE_TO_LOSE,
    ),
    _Claim(
        "purification",
        "random scores",
        "Purification trained on random scores: satisfactory protection at negligible loss of utility.",
        True,
        False,
        _NO_MORE_TO_LOSE,
    ),
)


def trade_off_statements(data: pd.DataFrame) -> list[Statement]:
    """Judge what section 6.2 says of Figures 14 and 15, from rows of the section's ``data``."""
    published = where(data, adversary="inversion")
    found = []
    for kind, source in _SOURCES.items():
        own = where(published, model=kind)
        subject = ", ".join([_NAMES[kind], *(dict.fromkeys(own["dataset"]) if len(own) else ())])
        found += [
            _unchanged(own).statement(source, subject, "PSI is unable to prevent the attack."),
            *(_judged(own, claim).statement(source, subject, claim.words, claim.reason) for claim in _CLAIMS),
            _smaller_budget(own).statement(
                source, subject, "The attack accuracy falls with a smaller epsilon.", _NO_MORE_TO_LOSE
            ),
            _random_purifier(own).statement(
                source,
                subject,
                "A purifier trained on random scores reaches an even better trade-off than one trained on real scores.",
            ),
        ]
    return found


def _pairs(own: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Each data set with each access, in words, and its rows."""
    for name in dict.fromkeys(own["dataset"]) if len(own) else ():
        for access in _ACCESSES:
            yield f"{name}, {access}", where(own, dataset=name, access=access)


def _unchanged(own: pd.DataFrame) -> Judged:
    judged = Judged("Attack accuracy, error and model accuracy with PSI less those without")
    for words, of in _pairs(own):
        psi, none = where(of, defence="psi"), where(of, defence="none")
        changes = [difference(psi, none, measure) for measure in ("attack_accuracy", "mse", "model_accuracy")]
        if None not in changes:
            means = [change.mean.mean for change in changes if change is not None]
            judged.add(f"{words} {', '.join(map(number_words, means))}", not any(means))
    return judged


def _judged(own: pd.DataFrame, claim: _Claim) -> Judged:
    judged = Judged(
        "Paired changes of attack and of model accuracy (counting falls of more than "
        f"{_DISTINCT} and {_NEGLIGIBLE} in the mean)"
    )
    for words, of in _pairs(own):
        defended, none = where(of, defence=claim.family, option=claim.option), where(of, defence="none")
        attack, model = (difference(defended, none, measure) for measure in ("attack_accuracy", "model_accuracy"))
        if attack is None or model is None:
            continue
        held = []
        if claim.protects is not None:
            # A wide interval shows neither: what doesn't protect surely takes less than that away.
            fell = attack.is_below and attack.mean.mean < -_DISTINCT
            held.append(fell if claim.protects else attack.mean.low >= -_DISTINCT)
        if claim.costs is not None:
            held.append((model.mean.mean < -_NEGLIGIBLE) == claim.costs)
        judged.add(f"{words}: {attack.words} and {model.words}", *held)
    return judged


def _smaller_budget(own: pd.DataFrame) -> Judged:
    judged = Judged("Paired change of attack accuracy from epsilon 10 to 0.1")
    for words, of in _pairs(own):
        small, large = (where(of, defence="dp_sgd", option=f"epsilon {epsilon}") for epsilon in ("0.1", "10"))
        change = difference(small, large, "attack_accuracy")
        if change is not None:
            judged.add(f"{words} {change.words}", change.is_below)
    return judged


def _random_purifier(own: pd.DataFrame) -> Judged:
    judged = Judged(
        "Attack and model accuracy with random less with real training scores (better: the attack's falls, the model's "
        f"doesn't by more than {_NEGLIGIBLE})"
    )
    for words, of in _pairs(own):
        random, real = (where(of, defence="purification", option=f"{kind} scores") for kind in ("random", "real"))
        attack, model = (difference(random, real, measure) for measure in ("attack_accuracy", "model_accuracy"))
        if attack is not None and model is not None:
            better = attack.is_below and model.mean.mean >= -_NEGLIGIBLE
            judged.add(f"{words}: {attack.words} and {model.words}", better)
    return judged


def trade_off_notes(data: pd.DataFrame) -> Iterator[str]:
    """What the adversary who knows each defence still gets beyond what it knew, and how this was run."""
    done = where(data)
    for kind, words in _NAMES.items():
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
