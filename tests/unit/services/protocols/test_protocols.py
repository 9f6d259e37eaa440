"""Protocols by name: those built in, what each is with a learner, and those of other packages."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.common import protocols
from services.common.agreement import TrainingPlan
from services.common.errors import InvalidMessage
from services.protocols.first_layer.first_layer import FirstLayer
from services.protocols.hu.cut_layer import CutLayer
from services.protocols.hu.protocol1 import Protocol1
from services.protocols.shared_weights.shared_weights import SharedWeights
from tests.harness.agreements import agreed
from tests.harness.documented_plugin import lay_out

ROOT = Path(__file__).parents[4]
NETWORK = {"learner": "network", "learner_options": {"backward": "shared"}}
_OF_ANOTHER_PACKAGE = """
from dataclasses import dataclass
from services.protocols.hu.protocol1 import Protocol1

@dataclass(frozen=True)
class Other({base}):
    name = "other"
    sends_sums = True
    def of(self, learner):
        return self
    def check(self, plan):
        {line}
"""


@pytest.mark.parametrize(
    ("terms", "kind"),
    [
        ({}, Protocol1),
        ({"learner": "network"}, CutLayer),
        ({"protocol": "shared"}, SharedWeights),
        ({"protocol": "shared", **NETWORK}, FirstLayer),
    ],
)
def test_a_plan_has_its_protocol_as_it_trains_its_learner(terms: dict[str, object], kind: type) -> None:
    plan = TrainingPlan().changed(**terms)
    assert type(plan.training) is kind
    assert plan.training.name == plan.protocol
    # Where no sums are sent, some are told nothing but uniform numbers, since these parties refuse an opening.
    uniform = [one for one in plan.training.exposures(agreed(plan)) if one.received == "uniform numbers"]
    assert bool(uniform) != plan.training.sends_sums
    assert not any(one.equations or one.bits or one.possible for one in uniform)


def test_an_unknown_protocol_is_refused_with_the_known_ones_at_every_party() -> None:
    assert {"hu", "shared"} <= set(protocols.names())
    with pytest.raises(InvalidMessage, match=r"Unknown protocol 'hue'. Known: hu, shared"):
        TrainingPlan(protocol="hue").check()
    message = TrainingPlan(epochs=3, batch_size=10).to_message()
    message.protocol = "tree"
    with pytest.raises(InvalidMessage, match=r"Unknown protocol 'tree'. Known: hu, shared"):
        TrainingPlan.from_message(message)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("other_protocol", None)


def install(package: Path, base: str = "Protocol1", line: str = "super().check(plan)") -> None:
    code = _OF_ANOTHER_PACKAGE.format(base=base, line=line)
    lay_out(package, "other_protocol", code, {"plumbline.protocols": "other = other_protocol:Other"})


def test_another_package_brings_a_protocol(package: Path) -> None:
    install(package)
    plan = TrainingPlan(protocol="other")
    plan.check()
    assert plan.training.name == "other"
    assert plan.training.exposures(agreed(plan)) == Protocol1().exposures(agreed(plan))
    assert TrainingPlan.from_message(TrainingPlan(epochs=2, batch_size=8, protocol="other").to_message()).training


@pytest.mark.parametrize(
    ("base", "line", "words"),
    [
        ("object", "pass", "other lacks check_parties, refusal, "),
        ("Protocol1", "raise RuntimeError('a secret')", "protocol other failed with RuntimeError"),
    ],
)
def test_one_that_lacks_a_method_or_fails_is_named_and_nothing_else(
    package: Path, base: str, line: str, words: str
) -> None:
    install(package, base, line)
    with pytest.raises(InvalidMessage, match=words) as refused:
        TrainingPlan(protocol="other").check()
    assert "secret" not in str(refused.value)


def test_nobody_outside_imports_a_protocol() -> None:
    """Who needs to know something of one asks the plan's."""
    for path in (one for package in ("services", "plumbline") for one in (ROOT / package).rglob("*.py")):
        if "protocols" not in path.relative_to(ROOT).parts:
            imported = [
                node.module or "" for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)
            ]
            assert not [one for one in imported if one.startswith("services.protocols")], path
