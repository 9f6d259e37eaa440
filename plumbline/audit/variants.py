"""Variants of one request, side by side: ``learner=linear,network``, ``backward=plain,shared``, ``protocol=hu,shared``.

A list of a setting asks for a federation for each; lists of several settings for all that go together. Each learner is
given the settings that it takes.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from services.common import protocols
from services.common.learner_calls import LearnerCalls, made
from services.common.plan_settings import OF_LEARNERS
from services.common.setting_texts import listed
from services.common.settings import environment_values
from vfl.crypto import ciphers
from vfl.learning import registry
from vfl.learning.linear.regression import LinearRegression
from vfl.plugin_options import options_of

# What may be a list: settings, of which the last is an option of some learners.
LISTS = ("learner", "protocol", "backward")


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
    """List the variants that settings with lists ask for, the audit's own first; nothing where there is no list.

    Raises:
        ValueError: for a value that is listed twice, an unknown one, and a list that no listed learner has a use for.
    """
    choices = {name: listed(str(settings[name])) for name in LISTS if settings.get(name)}
    lists = {name: values for name, values in choices.items() if len(values) > 1}
    if not lists:
        return ()
    _check(lists)
    options = settings.get("learner_options", {})
    options = dict(json.loads(options) if isinstance(options, str) else options)
    variants: dict[str, Variant] = {}
    learners = choices.get("learner") or [str(environment_values().get("learner", LinearRegression.name))]
    for learner in learners:
        option_names = {one.name for one in options_of(registry.REGISTRY.class_of(learner))}
        # What another learner has no use for is left out.
        base = {name: value for name, value in settings.items() if name in option_names or name not in OF_LEARNERS}
        learner_options = {name: value for name, value in options.items() if name in option_names}
        for backward in choices.get("backward", [""]) if "backward" in option_names else [""]:
            learner_terms = {"learner": learner} | ({"backward": backward} if backward else {})
            of_learner = {name: value for name, value in {**base, **learner_terms}.items() if name in option_names}
            follows = LearnerCalls(made(learner, {**of_learner, **learner_options})).terms()
            for protocol in [""] if "protocol" in follows else choices.get("protocol", [""]):
                terms = learner_terms | ({"protocol": protocol} if protocol else {})
                variant = Variant(
                    {name: terms[name] for name in lists if name in terms},
                    _settings(base, learner_options, follows, terms),
                    sets_cipher="cipher" in follows,
                )
                variants.setdefault(variant.title, variant)
    if useless := [name for name in lists if len({one.terms.get(name) for one in variants.values()}) < 2]:
        raise ValueError(f"{useless[0]} is a list that {' and '.join(learners)} can't use.")
    return tuple(variants.values())


def _check(lists: Mapping[str, list[str]]) -> None:
    for name, values in lists.items():
        if len(set(values)) != len(values):
            raise ValueError(f"Each {name} once, got {', '.join(values)}.")
    for name in lists.get("protocol", ()):
        protocols.REGISTRY.check(name)


def _settings(
    base: Mapping[str, Any], options: Mapping[str, Any], follows: Mapping[str, str | int], terms: Mapping[str, str]
) -> dict[str, Any]:
    """Keep the settings that go with these terms and with what follows from them."""
    dropped = {"learner_options", *(name for name in (*LISTS, *follows) if name not in terms)}
    if "learner" not in base:  # the shell's, or the default
        dropped.add("learner")
    if not ciphers.spec_of(str(follows.get("cipher", ciphers.ENCRYPTED))).is_encrypted:
        dropped.add("key_bits")
    remaining = {name: value for name, value in {**base, **terms}.items() if name not in dropped}
    return {**remaining, "learner_options": dict(options)} if options else remaining
