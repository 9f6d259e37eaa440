"""Columns of all widths train under Paillier as they do in the clear, whatever scaled or changed them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from defences import Defence, load
from services.ciphers.formats import CipherFormats
from services.common.agreement import Agreement, TrainingPlan
from services.party.features import PartyData
from tests.harness.defended import Flip, with_defences
from tests.harness.exchanges import SMALL_PLAN, Problem, largest_difference, train_encrypted, train_plainly, wired
from vfl.arrays import FloatArray
from vfl.crypto.widths import ColumnWidths
from vfl.data import ENCODER_KINDS, EncoderKind, GriddedFeatures, load_dataset, party_share, read_table, typed_table_of
from vfl.learning import ResidualScheme

ROWS = 40
PLAN = replace(SMALL_PLAN, epochs=2, batch_size=9)


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two parties' files, adult-like: ages and words with gaps, yes or no, hours, money that is owed, dates, reals."""
    generator, folder = np.random.default_rng(7), tmp_path_factory.mktemp("people")

    def gaps(cells: NDArray[Any], share: float = 0.1) -> list[object]:
        return [None if generator.random() < share else cell for cell in cells.tolist()]

    ids = [f"id-{row}" for row in range(ROWS)]
    active = {
        "age": gaps(generator.integers(17, 98, ROWS)),
        "member": generator.choice(["yes", "no"], ROWS),
        "job": gaps(generator.choice(["clerk", "smith", "baker"], ROWS)),
    }
    passive = {
        "hours": generator.integers(0, 80, ROWS) / 2,
        "home": generator.choice(["owner", "tenant"], ROWS),
        "balance": (generator.normal(size=ROWS) * 900).round(2),
        "debt": -generator.integers(0, 30, ROWS),
        "since": np.datetime64("2020-01-01") + 7 * generator.integers(0, 100, ROWS),
        "town": gaps(generator.choice([f"town {at}" for at in range(22)], ROWS)),
        "ratio": generator.uniform(size=ROWS),
    }
    paths = {}
    for name, columns in (("active", active), ("passive", passive)):
        paths[name] = folder / f"{name}.csv"
        pd.DataFrame({"id": ids, **columns}).to_csv(paths[name], index=False)
    return paths


def session_of(
    paths: dict[str, Path], encoder: EncoderKind, plan: TrainingPlan = PLAN, *chosen: Defence, pads: bool = False
) -> Problem:
    """What both parties train on in a session over the rows of their files."""
    gridded = {}
    for name, path in paths.items():
        encode = {"town": "ordinal"} if name == "passive" else {}
        # Unscaled, days since 1970 and balances make residuals that no session of small keys has.
        drop = ("since", "balance") if encoder == "none" and name == "passive" else ()
        table = read_table(str(path), id_column="id", label_column=None, encode=encode, drop=drop)
        data = PartyData(table, encoder, has_bias=name == "active", pads_widths=pads)
        if name == "passive" and chosen:
            data = data.protected_by(with_defences(*chosen))
        gridded[name] = data.aligned(np.random.default_rng(1).permutation(ROWS), plan).gridded
    return Problem.of(gridded, np.arange(ROWS) % 2, 2)


def parity(problem: Problem, plan: TrainingPlan) -> float:
    return largest_difference(train_encrypted(problem, plan), train_plainly(problem, plan))


@pytest.mark.parametrize("packing", [True, False], ids=["packed", "unpacked"])
@pytest.mark.parametrize("encoder", ENCODER_KINDS)
def test_raw_tables_train_alike_under_every_encoder(
    people: dict[str, Path], encoder: EncoderKind, packing: bool
) -> None:
    rate = 1e-5 if encoder == "none" else PLAN.learner_options["learning_rate"]
    plan = PLAN.changed(packing=packing, residual_integer_bits=14, learning_rate=rate)
    problem = session_of(people, encoder, plan)
    narrow = sum(one.widths.binary + one.widths.byte for one in problem.gridded.values())
    assert narrow == {"minmax": 15, "none": 12, "standardise": 9, "unit_norm": 1}[encoder]
    assert parity(problem, plan) <= 1e-6


@pytest.mark.parametrize("classes", [2, 3])
def test_several_classes_train_alike_on_columns_of_all_widths(people: dict[str, Path], classes: int) -> None:
    problem = replace(session_of(people, "minmax"), labels=np.arange(ROWS) % classes, classes=classes)
    assert [one.widths for one in problem.gridded.values()] == [ColumnWidths(7, 1, 0), ColumnWidths(3, 4, 2)]
    plan = replace(PLAN, key_bits=1024)
    assert parity(problem, plan) <= 1e-6


@pytest.mark.parametrize(
    "defence",
    [
        Flip(),
        load("feature_transform", kind="random", at="training"),
        load("feature_transform", kind="permutation", at="training"),
    ],
    ids=["flip", "turned", "permuted"],
)
def test_features_that_a_defence_changed_train_alike_and_are_all_full(
    people: dict[str, Path], defence: Defence
) -> None:
    problem = session_of(people, "minmax", PLAN, defence)
    assert problem.gridded["passive"].widths == ColumnWidths(full=9)
    assert parity(problem, PLAN) <= 1e-6


def test_padded_columns_train_alike_and_nothing_tells_them_apart(people: dict[str, Path]) -> None:
    problem = session_of(people, "minmax", pads=True)
    assert {one.widths.full for one in problem.gridded.values()} == {8, 9}
    assert parity(problem, PLAN) <= 1e-6
    # The same model but for the rounding of features.
    narrow = train_plainly(session_of(people, "minmax"), PLAN)
    assert largest_difference(train_plainly(problem, PLAN), narrow) <= 1e-3


def test_real_columns_of_breast_cancer_train_alike_beside_a_party_of_integers() -> None:
    plan, gridded = replace(PLAN, epochs=1, batch_size=64), {}
    for number, (name, data) in enumerate((("active", "breast_cancer"), ("passive", "digits"))):
        table = typed_table_of(party_share(load_dataset(data, Path("data")), number, 2, seed=0))
        loaded = PartyData(table, "minmax", has_bias=name == "active")
        gridded[name] = loaded.aligned(np.arange(300), plan).gridded
    problem = Problem.of(gridded, np.arange(300) % 2, 2)
    assert problem.gridded["active"].widths == ColumnWidths(binary=1, full=15)
    assert problem.gridded["passive"].widths.full == 0
    assert parity(problem, plan) <= 1e-6


def test_answers_about_narrow_columns_are_shorter(people: dict[str, Path]) -> None:
    """Their honest width is what is left to cut to: the guard counts fewer spare bits."""

    def answer_bits(agreement: Agreement) -> int:
        bits = CipherFormats(agreement).answer_bits("active", "passive")
        assert bits is not None
        return sum(bits)

    plan = replace(PLAN, packing=False)
    narrow, padded = (session_of(people, "minmax", plan, pads=pads).agreement(plan) for pads in (False, True))
    assert answer_bits(narrow) < answer_bits(padded)


def test_what_is_put_into_products_is_whole_numbers_within_their_widths(people: dict[str, Path]) -> None:
    with wired(session_of(people, "minmax"), PLAN) as trainings:
        training = trainings["passive"]
        integers = training.gridded.integers_of(training.gridded.values)
    widths = training.agreement.party("passive").widths
    assert set(np.unique(integers[:, : widths.binary])) == {0.0, 1.0}
    byte = integers[:, widths.binary : widths.binary + widths.byte]
    np.testing.assert_array_equal(byte, np.rint(byte))
    assert 0 <= byte.min() <= byte.max() <= 255


def column(kind: str, rows: int, generator: np.random.Generator) -> FloatArray:
    """A column at the limits of its width, or of none."""
    values: dict[str, NDArray[Any]] = {
        "ones": np.ones(rows),
        "zeros": np.zeros(rows),
        "yes or no": generator.integers(0, 2, rows) * 3.7,
        "all 255": np.append(np.full(rows - 1, 255), 1) / 255,
        "thirds": generator.integers(0, 4, rows) / 3,
        "a real": generator.uniform(size=rows),
        "signed": generator.normal(size=rows),
        "its bound": np.full(rows, -4.0),
    }
    return values[kind].astype(np.float64)


KINDS = ("ones", "zeros", "yes or no", "all 255", "thirds", "a real", "signed", "its bound")
COLUMNS = st.lists(st.sampled_from(KINDS), min_size=1, max_size=7)


@settings(max_examples=10)
@given(
    own=COLUMNS,
    others=COLUMNS,
    rows=st.integers(2, 40),
    classes=st.integers(2, 3),
    cut=st.booleans(),
    packing=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_step_of_any_table_is_off_by_the_rounding_of_residuals_and_nothing_else(
    own: list[str], others: list[str], rows: int, classes: int, cut: bool, packing: bool, seed: int
) -> None:
    """Half a unit of 2^-32 a row, times the row's feature. Everything after it is whole numbers."""
    generator = np.random.default_rng(seed)
    gridded = {
        name: GriddedFeatures.of(np.column_stack([column(kind, rows, generator) for kind in kinds]))
        for name, kinds in (("active", [*own, "ones"]), ("passive", others))
    }
    problem = Problem.of(gridded, generator.integers(0, classes, rows), classes)
    plan = replace(PLAN, epochs=1, batch_size=rows, packing=packing, residual_integer_bits=8)
    plan = replace(plan, validation_fraction=0.0, test_fraction=0.0)
    scale = plan.learner_options["learning_rate"] * ResidualScheme(classes).gradient_scale(rows)
    encrypted = train_encrypted(problem, plan, truncating=cut)
    for one, plain, features in zip(encrypted, train_plainly(problem, plan), problem.blocks.values(), strict=True):
        bound = scale * np.abs(features).sum(axis=0) * 2.0**-33
        assert (np.abs(one - plain).max(axis=1) <= bound + 1e-13 * scale * rows).all()
