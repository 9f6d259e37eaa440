"""What is told of a defence: its options, no private one; on the wire and back; what no service tells is refused."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pytest

from defences import Defence, DefenceSpec, load
from services.common import limits
from services.common.agreement import Agreement, PartyDescription, TrainingPlan
from services.common.announced import AnnouncedDefence
from services.common.errors import InvalidMessage

SCHEME = AnnouncedDefence.of(load("score_scheme2", alpha=2.0))
TURN = AnnouncedDefence.of(load("feature_transform", kind="negate"))
AGREEMENT = Agreement(
    "0123456789abcdef0123456789abcdef",
    TrainingPlan(batch_size=16),
    2,
    (PartyDescription("active", 3, 0, False, 60), PartyDescription("passive", 4, 0, False, 60, True, (TURN,))),
    ("score_scheme2",),
    True,
    (SCHEME,),
)


@dataclass(frozen=True)
class Elsewhere:
    """Another package's, with an option of each kind that can't be told."""

    name: ClassVar[str] = "elsewhere"
    spec: ClassVar[DefenceSpec] = DefenceSpec(("coordinator",), ("scores",), "nothing", "a test")
    private_options: ClassVar[tuple[str, ...]] = ("key",)

    width: int = 3
    key: str = ""
    grid: Any = None
    wide: float = 1.0
    texts: tuple[str, ...] = field(default=())


def told(**options: Any) -> AnnouncedDefence:
    return AnnouncedDefence.of(cast(Defence, Elsewhere(**options)))


def test_all_options_are_told_also_those_that_nobody_gave() -> None:
    assert SCHEME.values() == {"alpha": 2.0, "delta": 0.01, "sign": 1}
    assert load(SCHEME.name, **SCHEME.values()) == load("score_scheme2", alpha=2.0)


def test_a_private_file_stays_private(tmp_path: Path) -> None:
    np.save(tmp_path / "secret.npy", np.full((2, 2), 0.5))
    announced = AnnouncedDefence.of(load("purification", scores=str(tmp_path / "secret.npy"), epochs=3))
    assert announced.withheld == ("scores",)
    assert "secret" not in repr(announced)
    assert announced.values() == {"epochs": 3, "hidden": None, "seed": 0}
    # Nothing is withheld where there is no file.
    assert AnnouncedDefence.of(load("purification")).withheld == ()


def test_what_is_no_json_or_too_much_of_it_is_withheld() -> None:
    assert told() == AnnouncedDefence("elsewhere", '{"grid": null, "texts": [], "wide": 1.0, "width": 3}')
    assert told(key="hidden", grid=np.eye(2), wide=float("inf")).withheld == ("key", "grid", "wide")
    long = told(texts=("x" * limits.OPTIONS_BYTES,))
    assert (long.options, long.withheld) == ("{}", ("width", "key", "grid", "wide", "texts"))
    long.check()


def test_the_agreement_carries_them() -> None:
    assert Agreement.from_message(AGREEMENT.to_message()) == AGREEMENT


@pytest.mark.parametrize(
    "announced",
    [
        AnnouncedDefence(""),
        AnnouncedDefence("x" * 65),
        AnnouncedDefence("two\nlines"),
        AnnouncedDefence("x", ""),
        AnnouncedDefence("x", "[1]"),
        AnnouncedDefence("x", "{"),
        AnnouncedDefence("x", '{"a": NaN}'),
        AnnouncedDefence("x", '{"a": -Infinity}'),
        AnnouncedDefence("x", '{"a": [-1e999]}'),
        AnnouncedDefence("x", "[" * 4000),
        AnnouncedDefence("x", '{"a": ' + "[" * 2000 + "]" * 2000 + "}"),
        AnnouncedDefence("x", '{"a": ' + "[" * 8 + "]" * 8 + "}"),
        AnnouncedDefence("x", '{"a": "' + "x" * limits.OPTIONS_BYTES + '"}'),
        AnnouncedDefence("x", withheld=("a",) * 33),
        AnnouncedDefence("x", withheld=("",)),
    ],
    ids=lambda one: repr(one)[:60],
)
@pytest.mark.parametrize("placed", ["score", "party"])
def test_what_no_service_announces_is_refused_in_one_sentence(announced: AnnouncedDefence, placed: str) -> None:
    if placed == "score":
        agreement = replace(AGREEMENT, announced=(announced,), score_defences=(announced.name,))
    else:
        passive = replace(AGREEMENT.parties[1], disclosure_defences=(announced,))
        agreement = replace(AGREEMENT, parties=(AGREEMENT.parties[0], passive))
    checks: list[Callable[[], object]] = [lambda: Agreement.from_message(agreement.to_message()), announced.check]
    for check in checks:
        with pytest.raises(InvalidMessage) as caught:
            check()
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 200


@pytest.mark.parametrize("announced", [(TURN,), (SCHEME, SCHEME), (SCHEME,) * 33])
def test_other_defences_than_the_agreement_names_are_refused(announced: tuple[AnnouncedDefence, ...]) -> None:
    with pytest.raises(InvalidMessage):
        Agreement.from_message(replace(AGREEMENT, announced=announced).to_message())


def test_a_defence_is_announced_once() -> None:
    """Each may have whoever reads it train a network."""
    twice = (SCHEME, replace(SCHEME, options='{"alpha": 3.0}'))
    passive = replace(AGREEMENT.parties[1], disclosure_defences=(TURN, TURN))
    repeated = [
        replace(AGREEMENT, announced=twice, score_defences=("score_scheme2",) * 2),
        replace(AGREEMENT, parties=(AGREEMENT.parties[0], passive)),
    ]
    for agreement in repeated:
        with pytest.raises(InvalidMessage, match="announced once"):
            Agreement.from_message(agreement.to_message())


def test_too_many_defences_of_a_party_are_refused() -> None:
    passive = replace(AGREEMENT.parties[1], disclosure_defences=(TURN,) * 33)
    with pytest.raises(InvalidMessage, match="0 to 32 defences"):
        PartyDescription.from_message(passive.to_message())


def test_deep_json_within_the_limit_is_only_text() -> None:
    """The parser's depth is bounded: nesting is refused or read, and never ends the process."""
    deep = AnnouncedDefence("x", json.dumps({"a": [[[[1]]]]}))
    assert deep.values() == {"a": [[[[1]]]]}
