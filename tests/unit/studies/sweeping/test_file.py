"""Sweep files: lists multiply, and every fault is a sentence with its place."""

import tomllib
from math import prod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.measurements import Choice, windows
from studies.sweeping import SweepFileError, read_sweep
from studies.sweeping.file import sweep_of

EXAMPLE = Path(__file__).parents[4] / "examples" / "sweep.toml"
SMALL: dict[str, Any] = {"data": "wine", "attacks": "half", "split": {"d": [1, 2], "windows": 3}}


def some(*values: Any) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.sampled_from(values), min_size=1, unique=True)


@given(
    data=some("wine", "breast_cancer", "digits"),
    d=some(1, 3, 12),
    count=st.integers(1, 13),
    seeds=some(0, 1, 5),
    attacks=some("half", "rcc2", "posterior"),
    init=some("zero", "half", "random"),
    defences=some("none", "score_rounding", "class_label"),
    moments=some(True, False),
    records=some(10, 20),
    penalties=some(0.5, 1.0),
)
def test_there_are_as_many_measurements_as_the_lists_multiply_to(count: int, **lists: list[Any]) -> None:
    asked = {
        "data": lists["data"],
        "split": {"d": lists["d"], "windows": count, "seeds": lists["seeds"]},
        "model": {"C": lists["penalties"]},
        "attacks": [*lists["attacks"], {"name": "gia", "init": lists["init"]}],
        "defences": lists["defences"],
        "knowledge": {"moments": lists["moments"]},
        "records": lists["records"],
    }
    measurements = sweep_of(asked).measurements
    others = [lists[name] for name in ("data", "d", "seeds", "penalties", "defences", "moments", "records")]
    expected = prod(map(len, others)) * count * (len(lists["attacks"]) + len(lists["init"]))
    assert len(measurements) == len(set(measurements)) == expected


def test_the_example_is_as_large_as_it_says() -> None:
    said = EXAMPLE.read_text().splitlines()[1]
    asked = read_sweep(EXAMPLE)
    assert said.endswith(f"= {len(asked.measurements)} measurements.")
    assert asked.datasets == ("breast_cancer", "wine")
    assert asked.name == "sweep"
    (imputation,) = {
        measurement for measurement in asked.measurements[:5] if measurement.attack == Choice("imputation")
    }
    assert (imputation.auxiliary, imputation.moments, imputation.records) == (20, False, 20)
    assert imputation.model.held_out == 0.5


def test_splits_are_windows_of_each_data_set() -> None:
    asked = sweep_of({**SMALL, "data": ["wine", "digits"], "split": {"ratio": 0.25, "windows": "all"}})
    assert [measurement.passive for measurement in asked.measurements] == [*windows(13, 3), *windows(64, 16)]


def test_an_option_that_is_a_list_is_one_value() -> None:
    pytest.importorskip("torch")
    chosen = sweep_of({**SMALL, "attacks": {"name": "shadow", "hidden": [4, 4]}}).measurements
    assert {measurement.attack for measurement in chosen} == {Choice.of("shadow", hidden=(4, 4))}
    models = {"kind": "network", "hidden": [[4], [4, 4]], "epochs": 3}
    networks = sweep_of({**SMALL, "model": models}).measurements
    assert {dict(measurement.model.options)["hidden"] for measurement in networks} == {(4,), (4, 4)}
    assert all(
        measurement.model.passive == measurement.passive and measurement.model.trainer == "adam"
        for measurement in networks
    )


def test_defences_stand_alone_or_in_a_chain() -> None:
    chain = ["feature_transform", {"name": "score_rounding", "decimals": [1, 2]}]
    found = sweep_of(
        {**SMALL, "split": {"d": 1, "windows": 1}, "defences": ["none", "class_label", chain]}
    ).measurements
    rounded = [(Choice("feature_transform"), Choice.of("score_rounding", decimals=one)) for one in (1, 2)]
    assert [measurement.defences for measurement in found] == [(), (Choice("class_label"),), *rounded]


def test_an_attacks_own_knowledge_wins() -> None:
    own = {"name": "half", "knowledge": {"auxiliary": [5, 6]}}
    asked = {**SMALL, "attacks": ["zero", own], "knowledge": {"auxiliary": 9, "access": "black_box"}}
    found = {
        (measurement.attack.name, measurement.auxiliary, measurement.access)
        for measurement in sweep_of(asked).measurements
    }
    assert found == {("zero", 9, "black_box"), ("half", 5, "black_box"), ("half", 6, "black_box")}


def test_synthetic_data_is_made_to_order() -> None:
    data = {"name": "synthetic", "n_samples": 200, "n_features": 6, "rows": [50, 100]}
    asked = sweep_of({**SMALL, "data": data, "split": {"d": 5, "windows": "all"}})
    assert {(measurement.model.data.rows, len(measurement.passive)) for measurement in asked.measurements} == {
        (50, 5),
        (100, 5),
    }
    assert len(asked.measurements) == 12


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"atacks": "half"}, "no key 'atacks'.*Did you mean 'attacks'"),
        ({"split": {"d": 1, "seed": [1]}}, "no key 'split.seed'.*Did you mean 'seeds'"),
        ({"knowledge": {"momnts": True}}, "no key 'knowledge.momnts'.*Did you mean 'moments'"),
        ({"data": "wien"}, "data: there is no data set 'wien'.*Did you mean 'wine'"),
        ({"data": {"name": "wine", "n_samples": 5}}, "no key 'data.n_samples'"),
        ({"data": {"name": "wine", "rows": 1}}, "at least 2 rows"),
        ({"data": []}, "data is empty"),
        ({"attacks": ["half", "hlaf"]}, r"attacks\[2\]: there is no attack 'hlaf'.*Did you mean 'half'"),
        ({"attacks": {"name": "gia", "innit": "half"}}, "gia can't take innit.*Did you mean 'init'"),
        ({"attacks": {"name": "gia", "init": ["zero", "hlf"]}}, "attacks.init: expected one of zero, half, random"),
        ({"attacks": {"name": "gia", "init": []}}, "attacks.init is empty"),
        ({"attacks": "label_recovery"}, "attacks: label_recovery is an attack on training.*take it out"),
        ({"attacks": {"init": "half"}}, "expected a name"),
        ({"defences": {"name": "score_rounding", "decimals": "2"}}, "defences.decimals: expected a whole number"),
        ({"defences": [["feature_transform", "parameter_rotation"]]}, "both replace the disclosed parameters"),
        ({"split": {"d": []}}, "split.d is empty"),
        ({"split": {"d": [1, 13]}}, "13 of wine's 13 columns can't be passive: choose 1 to 12"),
        ({"split": {"d": 1.5}}, "split.d: expected a whole number"),
        ({"split": {"ratio": 1.0}}, "between 0 and 1, exclusive"),
        ({"split": {"d": 1, "ratio": 0.5}}, "one of both"),
        ({"split": {}}, "one of both"),
        ({"split": {"d": 1, "windows": 0}}, 'at least 1, or "all"'),
        ({"split": {"d": 1, "seeds": 3}}, "split.seeds: expected a list"),
        ({"split": {"d": 1, "seeds": []}}, "at least one seed"),
        ({"split": {"d": 1, "held_out": 1.0}}, "held_out between 0 and 1"),
        ({"model": {"kind": "tree"}}, "model.kind: expected one of linear, network"),
        ({"model": {"kind": "network", "trainer": "lbfgs"}}, "networks take adam"),
        ({"model": {"hidden": [8]}}, "lbfgs can't take hidden"),
        ({"knowledge": {"auxiliary": 3, "delivered": 3}}, "not both"),
        ({"records": 0}, "records >= 1"),
        ({"name": "../elsewhere"}, "can't name a folder"),
        ({"name": "a\0b"}, "can't name a folder"),
        ({"split": 3}, "split: expected a table of keys"),
        ({"split": {"d": 1, "seeds": [2**32]}}, "from 0 to 4294967295"),
        ({"records": 10**23}, "records: 10{23} is no number that a table can hold"),
    ],
)
def test_faults_are_told_before_anything_runs(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(SweepFileError, match=words):
        sweep_of({**SMALL, **changed})


MANY = list(range(1000))
TWICE = [*MANY[1:], *MANY[1:]]


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({"records": MANY[1:], "attacks": {"name": "gia", "seed": MANY}}, "This grid"),
        ({"split": {"d": 1, "seeds": MANY * 80}}, "models and splits"),
        ({"attacks": {"name": "gia", "seed": MANY, "steps": MANY, "learning_rate": [0.1, 0.2]}}, "attacks"),
        ({"knowledge": {"auxiliary": MANY, "delivered": MANY, "moments": [True, False]}}, "attacks.knowledge"),
        (
            {"defences": [[{"name": "score_noise", "sigma": MANY[1:]}, {"name": "score_scheme1", "alpha": TWICE}]]},
            r"defences\[1\]",
        ),
        ({"data": {"name": "synthetic", "n_samples": MANY, "n_features": MANY, "n_classes": [2, 3]}}, "data"),
    ],
)
def test_a_grid_that_nobody_can_wait_for_is_refused_before_it_is_made(changed: dict[str, Any], place: str) -> None:
    with pytest.raises(SweepFileError, match=f"{place} multiplies to .*at most 1,000,000 measurements: shorten"):
        sweep_of({**SMALL, **changed})


def test_options_of_synthetic_data_multiply_and_weights_are_one_value() -> None:
    made = {"name": "synthetic", "n_samples": 60, "n_features": [8, 12], "weights": [0.7, 0.3]}
    measurements = sweep_of({**SMALL, "data": made}).measurements
    assert [dict(measurement.model.data.options)["n_features"] for measurement in measurements] == [8] * 6 + [12] * 6
    assert {dict(measurement.model.data.options)["weights"] for measurement in measurements} == {(0.7, 0.3)}


def test_measurements_that_come_out_alike_are_one() -> None:
    """A fifth and a sixth of wine's 13 columns are 3 and 2, a fourth is 3 as well."""
    ratios = {**SMALL, "split": {"ratio": [1 / 6, 1 / 5, 1 / 4], "windows": 1}, "attacks": ["half", "half"]}
    assert [len(measurement.passive) for measurement in sweep_of(ratios).measurements] == [2, 3]


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_bytes(b"\xef\xbb\xbf" + EXAMPLE.read_bytes())
    assert read_sweep(tmp_path / "grid.toml").measurements == read_sweep(EXAMPLE).measurements


@pytest.mark.parametrize("key", ["data", "attacks", "split"])
def test_what_every_sweep_needs(key: str) -> None:
    with pytest.raises(SweepFileError, match=f"A sweep needs {key}"):
        sweep_of({name: value for name, value in SMALL.items() if name != key})


@pytest.mark.parametrize(("content", "words"), [(b"data = [", "is no TOML"), (b"\xff\xfe", "no text in UTF-8")])
def test_what_is_no_toml(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "grid.toml").write_bytes(content)
    with pytest.raises(SweepFileError, match=words):
        read_sweep(tmp_path / "grid.toml")


def test_a_file_names_its_sweep_and_itself_in_faults(tmp_path: Path) -> None:
    path = tmp_path / "evening.toml"
    path.write_text('data = "wine"\nattacks = "half"\nsplit = { d = 2 }\n')
    assert read_sweep(path).name == "evening"
    assert len(read_sweep(path).measurements) == 13
    path.write_text(path.read_text() + "windows = 3\n")
    assert tomllib.loads(path.read_text())["windows"] == 3
    with pytest.raises(SweepFileError, match=r"evening.toml: There is no key 'windows'"):
        read_sweep(path)
