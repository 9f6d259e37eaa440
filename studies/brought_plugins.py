"""``--with NAME:option=value``: attacks and defences that a user draws into the papers' figures."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import attacks.registry
import defences.registry
from studies.measurements import Choice
from vfl.suggestions import did_you_mean


def brought(words: Iterable[str]) -> tuple[tuple[Choice, ...], tuple[Choice, ...]]:
    """Attacks and defences that are asked for, each as ``NAME`` or ``NAME:option=value,option=value``.

    A value is JSON where it can be read so, and text otherwise.

    Raises:
        ValueError: for a name that no plugin has, or both an attack and a defence; for an attack on training, which
            predictions have no place for; and for options that the plugin doesn't take.
    """
    chosen: dict[str, list[Choice]] = {"attack": [], "defence": []}
    for text in dict.fromkeys(words):
        name, _, rest = text.partition(":")
        kind = _kind_of(name)
        options = dict(_option(name, one) for one in _pieces(rest)) if rest else {}
        if kind == "attack":
            _check_attack(name, options)
        else:
            defences.registry.load(name, **options)
        chosen[kind].append(Choice.of(name, **options))
    return tuple(chosen["attack"]), tuple(chosen["defence"])


@dataclass(frozen=True)
class Foreknowledge:
    """What somebody must know of the passive columns before a score is seen.

    Attributes:
        records: whether complete records.
        moments: whether means and variances, or the covariance.
    """

    records: bool
    moments: bool


def foreknowledge_of(choice: Choice) -> Foreknowledge:
    """What an attack on predictions declares that it needs; figures give it no more, and no less."""
    attack = attacks.load_prediction(choice.name, **dict(choice.options))
    level, needs = attacks.level_of(attack), attack.spec.needs
    return Foreknowledge(
        records=level == "records" or "auxiliary" in needs,
        moments=level in ("marginals", "covariance") or "moments" in needs,
    )


def _kind_of(name: str) -> str:
    known = {"attack": attacks.registry.names(), "defence": defences.registry.names()}
    kinds = [kind for kind, names in known.items() if name in names]
    if len(kinds) == 2:
        raise ValueError(f"{name} is the name of an attack and of a defence: register one of them under another name.")
    if not kinds:
        every = [*known["attack"], *known["defence"]]
        raise ValueError(
            f"No attack and no defence is called {name!r}.{did_you_mean(name, every)} `plumbline attacks` and "
            "`plumbline defences` list them."
        )
    return kinds[0]


def _check_attack(name: str, options: dict[str, Any]) -> None:
    phase = attacks.registry.spec_of(name).phase
    if phase != "prediction":
        raise ValueError(
            f"{name} is an attack on {phase}, and these figures are of attacks on predictions: it can't be drawn there."
        )
    attacks.registry.load_prediction(name, **options)


def _pieces(text: str) -> list[str]:
    """Options apart, at commas that stand in no list, object or text."""
    pieces, depth, quoted = [""], 0, False
    for letter in text:
        quoted ^= letter == '"'
        depth += 0 if quoted else (letter in "[{") - (letter in "]}")
        if letter == "," and not depth and not quoted:
            pieces.append("")
        else:
            pieces[-1] += letter
    return pieces


def _option(name: str, text: str) -> tuple[str, Any]:
    option, equals, value = text.partition("=")
    if not equals or not option.strip():
        raise ValueError(f"Expected options of {name} as {name}:option=value, got {text!r}.")
    try:
        return option.strip(), json.loads(value)
    except ValueError:
        return option.strip(), value
