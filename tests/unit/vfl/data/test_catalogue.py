"""The registry: shapes and class counts of every data set, and what happens when raw files are missing or damaged.

Raw data are tested where PLUMBLINE_DATA_DIR names a directory that has them.
"""

from __future__ import annotations

import gzip
import os
import shutil
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from vfl.data import (
    DATASETS,
    DatasetError,
    DatasetNotFound,
    RegistryTable,
    dataset,
    dataset_names,
    encode_labels,
    load_dataset,
    missing_files,
)
from vfl.data.catalogue import WHOLE_ROW_UNIT_NORM

BUNDLED = {
    "breast_cancer": ((569, 30), {"malignant": 212, "benign": 357}),
    "digits": ((1_797, 64), dict(enumerate([178, 182, 177, 183, 181, 182, 181, 179, 174, 180]))),
    "wine": ((178, 13), {"class_0": 59, "class_1": 71, "class_2": 48}),
}
RAW: dict[str, tuple[tuple[int, int], dict[str | int, int]]] = {
    "bank": ((41_188, 19), {"no": 36_548, "yes": 4_640}),
    "bank_code": ((41_188, 19), {"no": 36_548, "yes": 4_640}),
    "bank_all": ((41_188, 20), {"no": 36_548, "yes": 4_640}),
    "adult": ((48_842, 14), {"<=50K": 37_155, ">50K": 11_687}),
    "adult_means": ((48_842, 13), {"<=50K": 37_155, ">50K": 11_687}),
    "satellite": ((6_435, 36), {1: 1_533, 2: 703, 3: 1_358, 4: 626, 5: 707, 7: 1_508}),
    "pendigits": (
        (10_992, 16),
        dict(enumerate([1_143, 1_143, 1_144, 1_055, 1_144, 1_055, 1_056, 1_142, 1_055, 1_055])),
    ),
    "grid": ((10_000, 12), {"unstable": 6_380, "stable": 3_620}),
    "grid_all": ((10_000, 13), {"unstable": 6_380, "stable": 3_620}),
    "robot": (
        (5_456, 24),
        {"Move-Forward": 2_205, "Sharp-Right-Turn": 2_097, "Slight-Right-Turn": 826, "Slight-Left-Turn": 328},
    ),
    "drive": ((2_200, 48), dict.fromkeys(range(1, 12), 200)),
    "credit": ((30_000, 23), {0: 23_364, 1: 6_636}),
    "mnist01": ((14_780, 784), {0: 6_903, 1: 7_877}),
}


@pytest.fixture(scope="module")
def data_dir() -> Path:
    value = os.environ.get("PLUMBLINE_DATA_DIR")
    if not value:
        pytest.skip("set PLUMBLINE_DATA_DIR to the directory of the raw data sets")
    return Path(value)


def check(table: RegistryTable, shape: tuple[int, int], counts: dict[str | int, int]) -> None:
    assert table.features.shape == shape
    assert table.features.dtype == np.float64
    assert np.isfinite(table.features).all()
    assert len(set(table.feature_names)) == shape[1]
    assert Counter(table.labels.tolist()) == counts
    assert encode_labels(table.labels)[1] == table.class_names


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled(name: str) -> None:
    shape, counts = BUNDLED[name]
    check(load_dataset(name, None), shape, counts)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", RAW)
def test_raw(name: str, data_dir: Path) -> None:
    shape, counts = RAW[name]
    check(load_dataset(name, data_dir), shape, counts)


def test_every_entry_is_tested_and_complete() -> None:
    assert set(dataset_names()) == {*BUNDLED, *RAW}
    for name, entry in DATASETS.items():
        assert entry.name == name
        assert entry.citation
        assert entry.licence.startswith("CC BY")
        assert entry.uci or entry.openml
        assert bool(entry.files) == bool(entry.folder)


@pytest.mark.parametrize(
    ("name", "rows", "counts"),
    [
        ("adult", 32_561, {"<=50K": 24_720, ">50K": 7_841}),
        ("satellite", 4_435, {1: 1_072, 2: 479, 3: 961, 4: 415, 5: 470, 7: 1_038}),
        ("pendigits", 7_494, dict(enumerate([780, 779, 780, 719, 780, 720, 720, 778, 719, 719]))),
        ("mnist01", 12_665, {0: 5_923, 1: 6_742}),
    ],
)
def test_published_training_rows_come_first(name: str, rows: int, counts: dict[str | int, int], data_dir: Path) -> None:
    table = load_dataset(name, data_dir)
    assert table.train_rows == rows
    assert Counter(table.labels[:rows].tolist()) == counts


def test_known_rows(data_dir: Path) -> None:
    satellite = load_dataset("satellite", data_dir)
    assert satellite.features[0, :4].tolist() == [92, 115, 120, 94]
    assert satellite.labels[0] == 3
    adult = load_dataset("adult", data_dir)
    # 39, State-gov (8th of "?" and 8 classes), 77516, Bachelors (10th of 16), 13, ...
    assert adult.features[0, :5].tolist() == [39, 7, 77_516, 9, 13]
    credit = load_dataset("credit", data_dir)
    assert credit.feature_names[0] == "LIMIT_BAL"
    assert credit.features[0, :6].tolist() == [20_000, 2, 2, 1, 24, 2]
    grid = load_dataset("grid", data_dir)
    assert grid.feature_names[-1] == "g4"
    assert np.abs(grid.features[:, 4] + grid.features[:, 5:8].sum(axis=1)).max() < 1e-9
    mnist = load_dataset("mnist01", data_dir)
    assert mnist.features.max() == 1
    assert 30 < 255 * mnist.features.mean() < 45


def test_bank_variants_and_mean_labels(data_dir: Path) -> None:
    text, code = load_dataset("bank", data_dir), load_dataset("bank_code", data_dir)
    assert set(code.feature_names) - set(text.feature_names) == {"duration"}
    assert set(text.feature_names) - set(code.feature_names) == {"campaign"}
    everything = load_dataset("bank_all", data_dir)
    assert set(everything.feature_names) == {*text.feature_names, *code.feature_names}
    assert "labels" in text.simulation[0]
    contact = text.features[:, text.feature_names.index("contact")]
    labels = text.labels == "yes"
    assert len(np.unique(contact)) == 2
    for value in np.unique(contact):
        assert value == pytest.approx(labels[contact == value].mean())


def test_varastehs_columns_of_adult_and_grid(data_dir: Path) -> None:
    coded, means = load_dataset("adult", data_dir), load_dataset("adult_means", data_dir)
    assert set(coded.feature_names) - set(means.feature_names) == {"fnlwgt"}
    assert "labels" in means.simulation[0]
    by_sex, rich = (means.features[:, means.feature_names.index("sex")], means.labels == ">50K")
    for code in (0, 1):
        rows = coded.features[:, coded.feature_names.index("sex")] == code
        np.testing.assert_allclose(by_sex[rows], rich[rows].mean())
    np.testing.assert_array_equal(means.features[:, 0], coded.features[:, 0])
    grid, outcome = load_dataset("grid", data_dir), load_dataset("grid_all", data_dir)
    assert outcome.feature_names == (*grid.feature_names, "stab")
    np.testing.assert_array_equal(outcome.features[:, :12], grid.features)
    assert ((outcome.features[:, 12] < 0) == (outcome.labels == "stable")).all()


def test_sample_of_drive_is_declared(data_dir: Path) -> None:
    assert "2,200 of the 58,509" in load_dataset("drive", data_dir).notes[-1]


def test_raw_files_with_and_without_gzip(data_dir: Path, tmp_path: Path) -> None:
    source = data_dir / "bank" / "bank-additional-full.csv.gz"
    (tmp_path / "bank").mkdir()
    plain = tmp_path / "bank" / "bank-additional-full.csv"
    plain.write_bytes(gzip.decompress(source.read_bytes()))
    np.testing.assert_array_equal(load_dataset("bank", tmp_path).features, load_dataset("bank", data_dir).features)


def test_whole_row_unit_norm_is_declared() -> None:
    table = load_dataset("digits", None, whole_row_unit_norm=True)
    np.testing.assert_allclose(np.linalg.norm(table.features, axis=1), 1)
    assert table.simulation == (WHOLE_ROW_UNIT_NORM,)
    assert load_dataset("digits", None).simulation == ()


def test_unknown_name() -> None:
    with pytest.raises(DatasetNotFound, match=r"known ones are breast_cancer.*Did you mean 'satellite'\?"):
        dataset("satelite")


@pytest.mark.parametrize("name", RAW)
def test_missing_raw_files_say_what_to_do(name: str, tmp_path: Path) -> None:
    for folder in (None, tmp_path):
        with pytest.raises(DatasetNotFound, match=f"PLUMBLINE_DATA_DIR.*plumbline datasets fetch {name}`"):
            load_dataset(name, folder)


def test_missing_files(tmp_path: Path) -> None:
    assert missing_files("wine", None) == ()
    assert missing_files("adult", None) == missing_files("adult", tmp_path) == ("adult.data", "adult.test")
    for folder, file in (("adult", "adult.test.gz"), ("drive", "Sensorless_drive_diagnosis_sample2200.txt")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file).write_bytes(b"")
    assert missing_files("adult", tmp_path) == ("adult.data",)
    assert missing_files("drive", tmp_path) == ()


def robot_rows(count: int) -> str:
    turns = ["Move-Forward", "Sharp-Right-Turn", "Slight-Right-Turn", "Slight-Left-Turn"]
    return "".join(",".join(["1.5"] * 24 + [turns[row % 4]]) + "\n" for row in range(count))


def test_expected_rows_load_and_others_are_refused(tmp_path: Path) -> None:
    (tmp_path / "robot").mkdir()
    raw = tmp_path / "robot" / "sensor_readings_24.data"
    raw.write_text(robot_rows(5_456))
    assert load_dataset("robot", tmp_path).features.shape == (5_456, 24)
    for content in (robot_rows(5_455), "", "a,b\n1,2\n", robot_rows(10) + "1,2,3\n" * 40):
        raw.write_text(content)
        with pytest.raises(DatasetError, match="plumbline datasets fetch robot"):
            load_dataset("robot", tmp_path)


def test_damaged_gzip(tmp_path: Path) -> None:
    (tmp_path / "robot").mkdir()
    content = gzip.compress(robot_rows(5_456).encode())
    (tmp_path / "robot" / "sensor_readings_24.data.gz").write_bytes(content[: len(content) // 2])
    with pytest.raises(DatasetError, match="damaged"):
        load_dataset("robot", tmp_path)


def test_idx_files_of_another_kind(tmp_path: Path) -> None:
    folder = tmp_path / "mnist"
    folder.mkdir()
    for file in dataset("mnist01").files:
        (folder / file).write_bytes(struct.pack(">2I", 2049, 3) + b"\0\1\2")
    with pytest.raises(DatasetError, match="damaged"):
        load_dataset("mnist01", tmp_path)
    shutil.rmtree(folder)


def test_importing_the_package_leaves_the_heavy_libraries_out() -> None:
    program = "import sys, vfl.data; print(sorted({'pandas', 'sklearn', 'sqlalchemy', 'pyarrow'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
