"""Faults for mutation testing: what is changed, where, and what is left alone."""

import ast
from pathlib import Path

import pytest

from scripts.mutants import BY_CHECK, EVERYDAY, ROOT, Bench, Fault, faults_of, is_everyday, sample


def changed(source: str) -> set[str]:
    """The source after each of its faults."""
    whole = source.encode()
    return {(whole[: one.start] + one.text.encode() + whole[one.end :]).decode() for one in faults_of("x.py", source)}


@pytest.mark.parametrize(
    ("source", "mutants"),
    [
        ("x = a <= b", {"x = (a < b)"}),
        ("x = é - a[:-1]", {"x = (é + a[:-1])", "x = é - a[:(1)]", "x = é - a[:-(2)]"}),
        ("x = a and not b", {"x = (a or not b)", "x = a and (b)"}),
        ("x = a if b else 1.5", {"x = (1.5 if b else a)", "x = a if b else (4.0)"}),
        ("if a:\n    f(b)", {"if (not (a)):\n    f(b)", "if a:\n    pass"}),
        ("def f():\n    return a", {"def f():\n    return None"}),
        ('raise ValueError(f"{a + 1}")', {"pass"}),
    ],
)
def test_each_fault_changes_one_thing(source: str, mutants: set[str]) -> None:
    assert changed(source) == mutants


@pytest.mark.parametrize(
    "source",
    ['"""1 + 1"""', "def f(a: int | None) -> 'x': ...", "_log.info(1)", "@dataclass(frozen=True)\nclass A: ..."],
)
def test_words_annotations_logs_and_decorators_are_left_alone(source: str) -> None:
    assert changed(source) == set()


def test_a_sample_is_the_same_for_a_seed_and_every_fault_can_be_parsed() -> None:
    drawn = sample(60, 4)
    assert drawn == sample(60, 4) != sample(60, 5)
    assert len(set(drawn)) == 60
    for fault in drawn:
        whole = (ROOT / fault.file).read_bytes()
        ast.parse(whole[: fault.start] + fault.text.encode() + whole[fault.end :])


def test_a_line_has_the_tests_that_ran_it_the_quickest_first_and_one_of_an_import_those_of_its_file() -> None:
    seconds = {"a.py::slow": 2.0, "a.py::quick": 0.1, "b.py::other": 0.5}
    bench = Bench(Path(), seconds, {"x.py:1": ["a.py"], "x.py:2": ["b.py::other"], "y.py:1": []})

    def tests_of(file: str, line: int) -> list[str]:
        return bench.tests_of(Fault(file, line, 0, 1, "", "", ""))

    assert tests_of("x.py", 1) == ["a.py::quick", "a.py::slow"]
    assert tests_of("x.py", 2) == ["b.py::other"]
    assert tests_of("x.py", 3) == ["a.py::quick", "b.py::other", "a.py::slow"]
    assert tests_of("y.py", 1) == []


def test_a_tier_has_its_own_tests_only_and_the_makefile_says_which() -> None:
    names = ["tests/unit/test_a.py::test_one", "tests/integration/test_b.py::test_two", f"{EVERYDAY[-1]}::test_three"]
    bench = Bench(Path(), dict.fromkeys(names, 1.0), {"x.py:1": names})
    fault = Fault("x.py", 1, 0, 1, "", "", "")
    assert bench.tests_of(fault, is_everyday) == [names[0], names[2]]
    assert bench.tests_of(fault, lambda name: not is_everyday(name)) == [names[1]]
    assert "tests/unit" in EVERYDAY


def test_a_fault_is_tried_on_make_test_first_and_on_make_check_where_that_lets_it_live(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    everyday, beyond = "tests/unit/test_a.py::test_one", "tests/fault/test_b.py::test_two"
    bench = Bench(Path(), {everyday: 1.0, beyond: 1.0}, {"x.py:1": [everyday, beyond]})

    def becomes(kills: str) -> str:
        monkeypatch.setattr(Bench, "tried", lambda self, fault, tests: "killed" if kills in tests else "survived")
        return bench.tried_by_tiers(Fault("x.py", 1, 0, 1, "", "", ""))

    assert (becomes(everyday), becomes(beyond), becomes("none")) == ("killed", BY_CHECK, "survived")
