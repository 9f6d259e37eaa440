"""The key of a measurement: equal exactly when description, data, versions and source are."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from studies.measurements import AttackMeasurement, Choice, DataChoice, ModelChoice, TaskMeasurement, keys
from studies.measurements.keys import digest_of_data, key_of, versions_of

MODEL = ModelChoice(DataChoice("breast_cancer"))
MEASUREMENT = AttackMeasurement(MODEL, (0, 1, 2), Choice("half_star"))


def test_every_part_of_a_description_enters() -> None:
    others: dict[str, Any] = {
        "model": replace(MODEL, seed=1),
        "passive": (0, 1),
        "attack": Choice.of("posterior", prior="half"),
        "records": 7,
        "auxiliary": 5,
        "moments": True,
        "delivered": 3,
        "access": "black_box",
        "defences": (Choice("score_rounding"),),
        "seed": 4,
    }
    # Those that are added later as well.
    assert set(others) <= {field.name for field in fields(AttackMeasurement)}
    changed = [replace(MEASUREMENT, **{name: value}) for name, value in others.items()]
    assert len({key_of(measurement, "") for measurement in [MEASUREMENT, *changed]}) == 1 + len(others)


def test_options_that_are_equal_in_python_only_are_told_apart() -> None:
    choices = [Choice.of("gia", step=value) for value in (1, 1.0, True, "1")]
    assert len({key_of(replace(MEASUREMENT, attack=choice), "") for choice in choices}) == 4


def test_the_order_of_options_does_not_matter() -> None:
    one = TaskMeasurement.of("tests.harness.sweep_tasks:squared", number=1, log="x")
    other = TaskMeasurement.of("tests.harness.sweep_tasks:squared", log="x", number=1)
    assert key_of(one, "") == key_of(other, "")


def test_data_enters_by_its_content(monkeypatch: pytest.MonkeyPatch) -> None:
    digest = digest_of_data(MODEL.data, None)
    assert digest == digest_of_data(MODEL.data, Path("elsewhere"))
    assert digest != digest_of_data(DataChoice("digits"), None)
    assert key_of(MEASUREMENT, digest) != key_of(MEASUREMENT, "")
    assert digest_of_data(DataChoice("synthetic"), None) == digest_of_data(None, None) == ""


def test_torch_enters_only_where_it_computes() -> None:
    assert "torch" not in versions_of(MEASUREMENT)
    pytest.importorskip("torch")
    network = replace(MODEL, kind="network", trainer="adam", passive=MEASUREMENT.passive)
    for measurement in (
        replace(MEASUREMENT, attack=Choice("gia")),
        replace(MEASUREMENT, defences=(Choice("purification"),)),
        replace(MEASUREMENT, model=network),
        TaskMeasurement.of("tests.harness.sweep_tasks:squared", number=1, log="x"),
    ):
        assert "torch" in versions_of(measurement)


def test_versions_of_libraries_enter(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key_of(MEASUREMENT, "")
    monkeypatch.setattr(keys, "_common", lambda: {"numpy": "0.0"})
    assert key_of(MEASUREMENT, "") != before


def test_an_unknown_attack_has_a_key_too() -> None:
    assert len(key_of(replace(MEASUREMENT, attack=Choice("no_such_attack")), "")) == 64


def package(folder: Path, name: str, **modules: str) -> None:
    (folder / name).mkdir()
    for module, text in ({"__init__": ""} | modules).items():
        (folder / name / f"{module}.py").write_text(text)


def test_source_is_followed_through_imports_and_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(
        tmp_path,
        "followed_pkg",
        first="from followed_pkg import second\nimport os",
        second='PLACE = "followed_pkg.third:f"',
        third="from plumbline.judge.measures import mse_per_feature\nfrom studies.page.plots import Curve",
        alone="",
    )
    monkeypatch.syspath_prepend(tmp_path)
    reached = keys.reached("followed_pkg.first")
    assert {"followed_pkg.first", "followed_pkg.second", "followed_pkg.third", "plumbline.judge.measures"} <= reached
    assert not {"followed_pkg.alone", "os", "studies.page.plots"} & reached


@pytest.mark.parametrize(("module", "changes"), [("task", True), ("inner", True), ("alone", False)])
def test_a_changed_line_changes_the_keys_of_what_it_computes(
    module: str, changes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"changed_pkg_{module}"
    package(tmp_path, name, task=f"from {name}.inner import f", inner="def f(_): return {}", alone="")
    monkeypatch.syspath_prepend(tmp_path)
    measurement = TaskMeasurement.of(f"{name}.task:f")

    def key() -> str:
        for cached in (
            keys.reached,
            keys.module_digest,
            keys._imports,
            keys._versions_of_module,
        ):
            cached.cache_clear()
        return key_of(measurement, "")

    before = key()
    (tmp_path / name / f"{module}.py").open("a").write("\n# another line")
    assert (key() != before) is changes


def test_a_plugin_that_was_missing_once_is_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that asked too early would send others' workers versions that they don't have."""
    measurement = replace(MEASUREMENT, attack=Choice("rcc2"))

    def missing(_: str) -> type:
        raise LookupError

    with monkeypatch.context() as early:
        early.setattr(keys, "attack_class", missing)
        versions_of(measurement)
    assert "torch" not in versions_of(measurement)


def test_what_measures_is_in_the_common_digest_and_what_shows_is_not() -> None:
    reached = keys.reached("studies.measurements.jobs")
    assert {
        "studies.measurements.measuring",
        "studies.measurements.descriptions",
        "plumbline.judge.measures",
    } <= reached
    assert not {"studies.measurements.engine", "studies.measurements.store", "studies.measurements.keys"} & reached
