"""A party's table in a session: typed before it, encoded in it, fitted on nothing but its own training rows."""

import itertools
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from defences import load
from services.common.agreement import TrainingPlan
from services.common.errors import InvalidMessage
from services.common.run_folder import RunFolder
from services.common.settings import SettingsError, load_settings
from services.party.features import AlignedFeatures, PartyData, load_party_data
from services.party.model_file import TableChanged
from tests.harness.defended import with_defences
from tests.harness.parties import data_of, house, party_data, small_settings, with_values
from tests.harness.restarts import IDS, town
from vfl.arrays import FloatArray
from vfl.crypto.widths import ColumnWidths
from vfl.data import ENCODER_KINDS, EncoderKind, TypedTable

PLAN = TrainingPlan(validation_fraction=0.1, test_fraction=0.2)
ROWS = 60
SPLIT = PLAN.split(ROWS)
TRAINED, TESTED = SPLIT.train.tolist(), SPLIT.test.tolist()


def loaded(folder: Path, frame: pd.DataFrame, *, with_bias: bool = False, **settings: Any) -> PartyData:
    """The party whose file this is; ids are added."""
    path = folder / "table.csv"
    frame.assign(id=[f"id-{row}" for row in range(len(frame))]).to_csv(path, index=False)
    return load_party_data(load_settings(data=str(path), **settings), with_bias=with_bias)


def of_all_rows(data: PartyData) -> AlignedFeatures:
    return data.aligned(np.arange(len(data.ids)), PLAN)


def column(aligned: AlignedFeatures, name: str) -> FloatArray:
    return aligned.features[:, [one.name for one in aligned.columns].index(name)]


def numbers(seed: int = 0) -> list[float]:
    return [float(value) for value in np.random.default_rng(seed).uniform(20, 80, ROWS).round(2)]


def words(*, rare: str = "", at: list[int] | None = None) -> list[str]:
    """Two categories; ``rare`` stands in these rows."""
    return [rare if row in (at or []) else ("owner", "tenant")[row % 2] for row in range(ROWS)]


def test_a_coarser_column_is_trained_on_and_the_truth_stays_as_it_is(tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": numbers(), "sum": numbers(1)})
    plain, coarse = loaded(tmp_path, frame), loaded(tmp_path, frame, encode={"age": "bins4"})
    before, after = of_all_rows(plain), of_all_rows(coarse)
    assert len(np.unique(column(after, "age"))) == 4
    np.testing.assert_allclose(after.truth, before.truth, atol=2**-16)
    np.testing.assert_array_equal(column(after, "sum"), column(before, "sum"))
    # Means of bins stand on no grid.
    assert coarse.grids[0] is None
    assert coarse.table_hash != plain.table_hash
    np.testing.assert_array_equal(of_all_rows(plain.changed({"age": "bins4"})).features, after.features)
    with pytest.raises(SettingsError, match="left out"):
        plain.changed({"age": "drop", "sum": "drop"})


# -- fitted on training rows ------------------------------------------------------------------------------------------


def test_scales_are_those_of_the_training_rows(tmp_path: Path) -> None:
    ages = numbers()
    ages[TESTED[0]], ages[TESTED[1]] = 1000.0, -1000.0
    aligned = of_all_rows(loaded(tmp_path, pd.DataFrame({"age": ages})))
    low, high = (extreme(ages[row] for row in TRAINED) for extreme in (min, max))
    (age,) = aligned.columns
    assert (age.source, age.kind, age.offset) == ("age", "number", low)
    assert age.offset + age.scale == pytest.approx(high)
    trained = aligned.features[TRAINED, 0]
    np.testing.assert_allclose(age.offset + age.scale * trained, [ages[row] for row in TRAINED], atol=2**-10)
    assert (aligned.features[TESTED[0], 0], aligned.features[TESTED[1], 0]) == (1.0, 0.0)


def test_the_order_of_the_session_decides_which_rows_are_trained_on(tmp_path: Path) -> None:
    """The split is of the common order, not of the party's file."""
    data = loaded(tmp_path, pd.DataFrame({"age": numbers()}))
    order = np.random.default_rng(3).permutation(ROWS)[:40]
    aligned = data.aligned(order, PLAN)
    trained = np.array(numbers())[order[PLAN.split(40).train]]
    assert aligned.columns[0].offset == trained.min()
    assert len(aligned.features) == 40
    np.testing.assert_array_equal(aligned.rows, order)


def test_a_category_that_only_a_test_record_has_is_a_feature_that_training_never_meets(tmp_path: Path) -> None:
    data = loaded(tmp_path, pd.DataFrame({"home": words(rare="boat", at=TESTED[:1]), "age": numbers()}))
    aligned = of_all_rows(data)
    assert [one.name for one in aligned.columns] == ["home=boat", "home=owner", "home=tenant", "age"]
    assert [one.kind for one in aligned.columns] == [*["category"] * 3, "number"]
    assert np.flatnonzero(column(aligned, "home=boat")).tolist() == [TESTED[0]]
    assert set(aligned.features[:, :3].sum(axis=1)) == {1.0}


def test_who_chooses_the_records_learns_nothing_from_how_many_features_a_session_has(tmp_path: Path) -> None:
    """Two and three records at a time, an active party could ask whether their categories agree, or one is missing."""
    ages: list[float | None] = list(numbers())
    ages[4] = None
    data = loaded(tmp_path, pd.DataFrame({"home": words(rare="boat", at=[7]), "age": ages}))
    told = {
        data.aligned(np.array(rows), PLAN).describe("passive", truncates_answers=True).feature_count
        for rows in ([0, 1, 2], [0, 2, 6], [7, 0, 1], [4, 0, 2], list(range(ROWS)))
    }
    assert told == {5}


def test_who_chooses_the_records_learns_nothing_from_how_wide_a_sessions_columns_are(tmp_path: Path) -> None:
    """Of three records, whether their values lie close together; of one, whether it has the largest of all."""
    ages: list[float | None] = [float(20 + row) for row in range(ROWS)]
    ages[4] = None
    pay = [float(row % 7) for row in range(ROWS - 1)] + [1000.0]
    kids = [row % 3 for row in range(ROWS)]
    data = loaded(tmp_path, pd.DataFrame({"home": words(), "age": ages, "pay": pay, "kids": kids}))
    chosen = ([0, 1, 2], [0], [4], [4, 5], [ROWS - 1, 3], [7, 14, 21], list(range(ROWS)))
    told = {
        data.aligned(np.array(rows), replace(PLAN, validation_fraction=0.0, test_fraction=0.0))
        .describe("passive", truncates_answers=True)
        .widths
        for rows in chosen
    }
    # Two homes and "age is missing"; age and kids; pay, whose one large value is in one record of all.
    assert told == {ColumnWidths(binary=3, byte=2, full=1)}


@pytest.mark.parametrize("pads", [False, True])
@pytest.mark.parametrize("encoder", ENCODER_KINDS)
def test_sessions_of_a_few_records_are_described_alike_whatever_is_in_them(
    tmp_path: Path, encoder: EncoderKind, pads: bool
) -> None:
    """Two records that are equal or not, on both sides of 0, with large values or small, in towns of their own."""
    owed = [0.0, 0.0, -3.5, 900.25, 17.125, 0.5, -80.75]
    towns = ["a", "a", "b", "c", "c", "d", None]
    frame = pd.DataFrame({"owed": owed, "paid": [0.0, 0.0, 3.25, 1e-3, 17.5, 40.0, None], "town": towns})
    data = loaded(tmp_path, frame, encoder=encoder, encode={"town": "ordinal"}, pad_widths=pads)
    plan = replace(PLAN, validation_fraction=0.0, test_fraction=0.0)
    for size in (2, 3):
        chosen = itertools.combinations(range(len(owed)), size)
        aligned = [data.aligned(np.array(rows), plan) for rows in chosen]
        assert len({one.describe("passive", truncates_answers=True) for one in aligned}) == 1
        for one in aligned:
            assert one.told.integer_bits >= one.gridded.integer_bits
            assert one.told.signed >= one.gridded.signed


def test_a_party_that_pads_has_columns_of_one_width_and_another_table_to_its_models(tmp_path: Path) -> None:
    frame = pd.DataFrame({"class": [row % 2 for row in range(ROWS)], "home": words(), "age": numbers()})
    plain = loaded(tmp_path, frame, with_bias=True, label_column="class")
    padded = loaded(tmp_path, frame, with_bias=True, label_column="class", pad_widths=True)
    described = [of_all_rows(data).describe("active", truncates_answers=True) for data in (plain, padded)]
    assert [one.widths for one in described] == [ColumnWidths(binary=3, full=1), ColumnWidths(full=4)]
    assert [one.feature_integer_bits for one in described] == [0, 0]
    np.testing.assert_allclose(of_all_rows(plain).features, of_all_rows(padded).features, atol=2**-17)
    assert plain.table_hash != padded.table_hash


def test_features_that_a_defence_changes_are_all_full_in_every_session() -> None:
    """A permutation, or a turn, shows in no width."""
    data = data_of(np.column_stack([np.arange(ROWS) % 2, np.arange(ROWS) % 5]).astype(float), encoder="minmax")
    turned = data.protected_by(with_defences(load("feature_transform", kind="permutation", at="training"), seed=4))
    widths = [of_all_rows(one).gridded.widths for one in (data, turned)]
    assert widths == [ColumnWidths(binary=1, byte=1), ColumnWidths(full=2)]
    # At disclosure nothing of training changes.
    later = data.protected_by(with_defences(load("feature_transform"), seed=4))
    assert of_all_rows(later).gridded.widths == widths[0]


def test_a_column_that_is_constant_in_training_is_a_feature_of_zeros_there(tmp_path: Path) -> None:
    ages = [50.0] * ROWS
    ages[TESTED[0]] = 60.0
    aligned = of_all_rows(loaded(tmp_path, pd.DataFrame({"age": ages, "pay": numbers()})))
    assert [one.name for one in aligned.columns] == ["age", "pay"]
    assert not column(aligned, "age").any()
    assert np.isfinite(aligned.features).all()


def test_a_column_that_is_missing_throughout_training_tells_nothing_and_breaks_nothing(tmp_path: Path) -> None:
    ages: list[float | None] = [None] * ROWS
    for row in TESTED:
        ages[row] = 40.0 + row
    data = loaded(tmp_path, pd.DataFrame({"age": ages, "pay": numbers()}), encode={"age": "number"})
    aligned = of_all_rows(data)
    assert np.isfinite(aligned.features).all()
    assert {one.source for one in aligned.columns} == {"age", "pay"}
    assert np.ptp(column(aligned, "age")[TRAINED]) == 0


def test_a_gap_is_filled_from_training_rows_and_told_by_a_feature(tmp_path: Path) -> None:
    ages: list[float | None] = list(numbers())
    missing = TRAINED[:3]
    for row in missing:
        ages[row] = None
    aligned = of_all_rows(loaded(tmp_path, pd.DataFrame({"age": ages})))
    assert [(one.name, one.kind) for one in aligned.columns] == [("age", "number"), ("age is missing", "missing")]
    assert np.flatnonzero(aligned.features[:, 1]).tolist() == missing
    known = [ages[row] for row in TRAINED if ages[row] is not None]
    age = aligned.columns[0]
    filled = age.offset + age.scale * aligned.features[missing, 0]
    np.testing.assert_allclose(filled, np.median(np.array(known, dtype=float)), atol=2**-9)


def test_no_row_to_train_on_is_refused_without_a_word_of_the_table(tmp_path: Path) -> None:
    data = loaded(tmp_path, pd.DataFrame({"age": numbers()}))
    with pytest.raises(InvalidMessage, match=r"^None of 1 aligned records is left to train on"):
        data.aligned(np.array([4]), replace(PLAN, test_fraction=0.6))


def test_what_cant_be_encoded_is_told_to_the_log_with_its_column_and_to_others_without(
    caplog: pytest.LogCaptureFixture,
) -> None:
    huge = data_of(np.array([[1.0e308], [-1.0e308]] * 30), encoder="minmax")
    with pytest.raises(InvalidMessage) as refused:
        of_all_rows(huge)
    assert str(refused.value) == "The aligned records can't be encoded: this party's log says why."
    assert "too large to scale" in caplog.text


# -- what a party uses ------------------------------------------------------------------------------------------------


def test_what_columns_become_is_logged_by_who_serves_it_and_no_value(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    frame = pd.DataFrame({"home": words(rare="houseboat", at=[3, 4]), "age": [71.25, *numbers()[1:]]})
    with caplog.at_level(logging.INFO):
        data = loaded(tmp_path, frame)
        assert not caplog.records, "an auditor that joins tables has told of their columns in a table of its own"
        data.log_columns()
    told = [one.getMessage() for one in caplog.records if one.name == "services.party.features"]
    assert [line.partition(":")[0] for line in told] == ["Column home", "Column age"]
    assert "feature" in told[0]
    for value in ("houseboat", "tenant", "71.25", f"{min(frame.age):g}", f"{max(frame.age):g}"):
        assert value not in caplog.text


def test_columns_and_drop_choose_and_encode_decides(tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": numbers(), "zip": [10 + row % 3 for row in range(ROWS)], "pay": numbers(2)})
    chosen = loaded(tmp_path, frame, columns=("age", "z*"), encode={"zip": "onehot"})
    assert [one.name for one in of_all_rows(chosen).columns] == ["age", "zip=10", "zip=11", "zip=12"]
    left = loaded(tmp_path, frame, drop=("p*", "zip"))
    assert [one.name for one in of_all_rows(left).columns] == ["age"]


def test_a_pattern_that_covers_the_label_doesnt_make_it_a_feature(tmp_path: Path) -> None:
    frame = pd.DataFrame({"class": [row % 2 for row in range(ROWS)], "children": [row % 4 for row in range(ROWS)]})
    data = loaded(tmp_path, frame, with_bias=True, label_column="class", columns=("c*",))
    assert {one.source for one in of_all_rows(data).columns} == {"children", "(bias)"}
    assert data.labels is not None


def test_a_table_without_a_column_left_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"(?i)column"):
        loaded(tmp_path, pd.DataFrame({"age": numbers()}), drop=("*",))
    with pytest.raises(ValueError, match=r"(?i)column"):
        loaded(tmp_path, pd.DataFrame({"age": numbers()}), encode={"age": "drop"})


@pytest.mark.parametrize("setting", [{"columns": ("a",)}, {"drop": ("a",)}, {"encode": {"a": "drop"}}], ids=str)
def test_columns_of_a_registered_data_set_arent_chosen(setting: dict[str, Any]) -> None:
    with pytest.raises(
        SettingsError, match=f"PLUMBLINE_{next(iter(setting)).upper()} chooses columns of a party's own"
    ):
        load_party_data(load_settings(data="wine", share="2/2", **setting), with_bias=False)


def test_a_registered_data_set_is_fitted_on_training_rows_too() -> None:
    data = load_party_data(load_settings(data="wine", share="2/2"), with_bias=False)
    aligned = data.aligned(np.arange(len(data.ids)), PLAN)
    trained = PLAN.split(len(data.ids)).train
    raw = data.table.frame.to_numpy()
    np.testing.assert_array_equal([one.offset for one in aligned.columns], raw[trained].min(axis=0))
    assert aligned.features.min() >= 0
    assert aligned.features.max() <= 1


# -- a whole session --------------------------------------------------------------------------------------------------


def typed(table: TypedTable, **columns: list[str]) -> TypedTable:
    """The same table with text columns besides."""
    frame = table.frame.assign(**{name: pd.Categorical(values) for name, values in columns.items()})
    plans = [replace(table.plans[0], name=name, encoding="onehot") for name in columns]
    return replace(table, frame=frame, plans=(*table.plans, *plans))


def text_only(rows: int = ROWS) -> PartyData:
    data = party_data(rows=range(rows))
    home = ["owner" if row % 3 else "tenant" for row in range(rows)]
    table = typed(data.table, home=home)
    return replace(data, table=replace(table, frame=table.frame[["home"]], plans=table.plans[-1:]))


@pytest.mark.parametrize("cipher", ["paillier", "plain"])
def test_a_passive_party_of_text_only_trains_and_its_record_says_what_its_features_are_of(
    tmp_path: Path, cipher: str
) -> None:
    settings = small_settings(cipher=cipher, record_features=True)
    with house(tmp_path, settings=settings, passive=[text_only()]) as home:
        home.train()
        assert home.active.predict_one("id-10").sum() == pytest.approx(1.0)
        agreement = home.active_training.agreement
    described = agreement.party("passive")
    # Counts and bounds, and nothing else of the table.
    assert (described.feature_count, described.feature_integer_bits, described.features_signed) == (2, 0, False)
    written = RunFolder(tmp_path).features("passive")
    assert written.sources is not None
    assert written.kinds is not None
    assert written.offsets is not None
    assert written.scales is not None
    assert written.names.tolist() == ["home=owner", "home=tenant"]
    assert (written.sources.tolist(), written.kinds.tolist()) == (["home"] * 2, ["category"] * 2)
    assert (written.offsets.tolist(), written.scales.tolist()) == ([0.0, 0.0], [1.0, 1.0])
    assert RunFolder(tmp_path).weights("passive").features.tolist() == written.names.tolist()
    own = RunFolder(tmp_path).features("active")
    assert own.kinds is not None
    assert own.kinds.tolist() == ["number", "number", "bias"]
    assert own.names[-1] == "(bias)"


def test_a_defence_of_features_meets_every_record_in_the_order_of_the_table() -> None:
    """What it draws once and again for a row is then for the same record, whatever a session aligns."""
    data = replace(party_data(), encoder="minmax")
    turned = data.protected_by(with_defences(load("feature_transform", kind="permutation", at="training"), seed=4))
    first, second = np.arange(ROWS), np.random.default_rng(0).permutation(ROWS)[:50]
    moved = turned.aligned(first, PLAN)
    assert sorted(moved.features[0]) == sorted(moved.truth[0])
    order = [int(np.flatnonzero(moved.truth[0] == value)[0]) for value in moved.features[0]]
    assert order != [0, 1, 2]
    # The same secret order in another session.
    again = turned.aligned(second, PLAN)
    np.testing.assert_array_equal(again.features, again.truth[:, order])
    np.testing.assert_array_equal(again.truth, data.aligned(second, PLAN).features)


# -- restarts ---------------------------------------------------------------------------------------------------------


def test_a_restart_fits_on_the_same_rows_and_answers_to_the_bit(tmp_path: Path) -> None:
    with town(tmp_path) as home:
        data = home.data["passive"]
        home.kill("passive")
        home.data["passive"] = replace(
            data,
            table=typed(data.table, home=[("a", "b", "c")[row % 3] for row in range(len(data.ids))]),
            encoder="standardise",
        )
        home.start("passive")
        home.train()
        before = home.scores()
        home.restart(*home.names)
        assert home.scores().tobytes() == before.tobytes()


@pytest.mark.parametrize("change", ["encode", "encoder", "a value that was not trained on"])
def test_a_restart_with_another_encoding_answers_nothing_until_it_is_put_back(tmp_path: Path, change: str) -> None:
    with town(tmp_path) as home:
        home.train()
        before = home.scores()
        data = home.data["passive"]
        plans = data.table.plans
        values = data.table.frame.to_numpy(copy=True)
        values[0, 0] += 0.5
        home.kill("passive")
        home.data["passive"] = {
            "encode": replace(data, table=replace(data.table, plans=(*plans[:2], replace(plans[2], encoding="drop")))),
            "encoder": replace(data, encoder="standardise"),
            "a value that was not trained on": with_values(data, values),
        }[change]
        home.start("passive")
        with pytest.raises(TableChanged, match="passive's table, or how it is encoded, has changed"):
            home.passive()._models.of_session(home.active.session_id)
        home.kill("passive")
        home.data["passive"] = data
        home.start("passive")
        assert home.scores(IDS).tobytes() == before.tobytes()


def test_the_same_table_that_is_encoded_otherwise_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By another version of a library, say: the table's hash is as before."""
    with town(tmp_path) as home:
        session = home.train()
        original = PartyData.aligned

        def otherwise(self: PartyData, rows: Any, plan: TrainingPlan) -> AlignedFeatures:
            aligned = original(self, rows, plan)
            return replace(aligned, gridded=replace(aligned.gridded, values=np.nextafter(aligned.features, 2.0)))

        with monkeypatch.context() as patch:
            patch.setattr(PartyData, "aligned", otherwise)
            home.restart("passive")
        with pytest.raises(TableChanged, match="encoded otherwise than when its model was trained: start it with"):
            home.passive()._models.of_session(session)
