"""Variants of one request, side by side: ``learner=linear,network``, ``backward=plain,shared``, ``protocol=hu,shared``.

A list of a setting asks for a federation for each; lists of several settings for all that go together. Each learner is
given the settings that it takes.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from services.common.agreement import PROTOCOLS
from services.common.learner_calls import made
from services.common.setting_texts import listed
from vfl.crypto import ciphers
from vfl.learning import registry
from vfl.learning.linear.regression import LinearRegression
from vfl.plugin_options import options_of

# What may be a list: settings, and options of learners.
_SETTINGS, _OPTIONS = ("learner", "protocol"), ("backward",)
# Options of one learner that are settings by themselves.
_OF_LINEAR = {one.name for one in options_of(LinearRegression)}


@dataclass(frozen=True)
class Variant:
    """A federation that differs in some settings from others over the same tables, split and seeds.

    Attributes:
        terms: what it differs in, by name: ``learner``, ``protocol``, ``backward``.
        settings: of every process, without lists.
        sets_cipher: whether its learner says which cipher it trains under.
    """

    terms: Mapping[str, str]
    settings: Mapping[str, Any]
    sets_cipher: bool = False

    @property
    def title(self) -> str:
        """What it is called: ``learner=network backward=plain``."""
        return " ".join(f"{name}={value}" for name, value in self.terms.items())


def variants_of(settings: Mapping[str, Any]) -> tuple[Variant, ...]:
    """What settings with lists ask for, the audit's own variant first; nothing where there is no list.

    Raises:
        ValueError: for a value that is listed twice, an unknown one, and a list that no listed learner has a use for.
    """
    options = _as_mapping(settings.get("learner_options", {}))
    said = {name: listed(str(settings[name])) for name in _SETTINGS if settings.get(name)}
    said |= {name: listed(str(options[name])) for name in _OPTIONS if options.get(name)}
    lists = {name: values for name, values in said.items() if len(values) > 1}
    if not lists:
        return ()
    _check(lists)
    found: dict[str, Variant] = {}
    for learner in said.get("learner", [LinearRegression.name]):
        taken = {one.name for one in options_of(registry.REGISTRY.class_of(learner))}
        given = {name: value for name, value in options.items() if name in taken}
        if learner == LinearRegression.name:
            given = {name: value for name, value in given.items() if name not in settings}
        # What a learner says itself, such as the cipher of each of its ways back, isn't varied besides.
        varied = [name for name in said if name in taken]
        for values in product(*(said[name] for name in varied)):
            own = {**given, **dict(zip(varied, values, strict=True))}
            follows = made(learner, own).terms()
            for protocol in [""] if "protocol" in follows else said.get("protocol", [""]):
                chosen = {"learner": learner, "protocol": protocol, **own}
                terms = {name: chosen[name] for name in lists if chosen.get(name)}
                variant = Variant(terms, _settings(settings, learner, protocol, own, follows), "cipher" in follows)
                found.setdefault(variant.title, variant)
    if useless := [name for name in lists if len({one.terms.get(name) for one in found.values()}) < 2]:
        raise ValueError(f"{useless[0]} is a list that {' and '.join(said.get('learner', ['linear']))} can't use.")
    return tuple(found.values())


def _as_mapping(options: Any) -> dict[str, Any]:
    return dict(json.loads(options) if isinstance(options, str) else options)


def _check(lists: Mapping[str, list[str]]) -> None:
    for name, values in lists.items():
        if len(set(values)) != len(values):
            raise ValueError(f"Each {name} once, got {', '.join(values)}.")
    if unknown := [one for one in lists.get("protocol", ()) if one not in PROTOCOLS]:
        raise ValueError(f"A protocol is one of {', '.join(PROTOCOLS)}, got {unknown[0]!r}.")


def _settings(
    settings: Mapping[str, Any], learner: str, protocol: str, options: Mapping[str, Any], follows: Mapping[str, str]
) -> dict[str, Any]:
    """Those that this learner takes, without lists."""
    dropped = {*_SETTINGS, "learner_options", *follows} | (set() if learner == LinearRegression.name else _OF_LINEAR)
    dropped |= {"key_bits"} if not ciphers.spec_of(follows.get("cipher", ciphers.ENCRYPTED)).is_encrypted else set()
    own: dict[str, Any] = {name: value for name, value in settings.items() if name not in dropped}
    own |= {"learner": learner} if "learner" in settings else {}
    own |= {"protocol": protocol} if protocol else {}
    return {**own, "learner_options": dict(options)} if options else own
