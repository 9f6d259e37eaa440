"""Columns of 0 and 1 that follow from a forwarded layer alone."""

from typing import Any

import numpy as np
import pytest

from attacks.solving.lattices import has_flint
from attacks.training.binary_columns import BinaryColumns
from attacks.views import ViewError
from tests.harness.network_views import NetworkRun, breast_cancer, network_run

# The label party trains with it.
pytest.importorskip("torch")


def mixed(**options: Any) -> NetworkRun:
    """Party 1 has three categories, one-hot, a flag, and four columns of numbers."""
    blocks, labels = breast_cancer(columns=4)
    generator = np.random.default_rng(0)
    categories = np.eye(3)[generator.integers(0, 3, len(labels))]
    flag = (generator.random(len(labels)) < 0.2).astype(np.float64)
    return network_run([blocks[0], np.column_stack([categories, flag, blocks[1]])], labels, epochs=1, **options)


def test_flags_and_categories_are_read_with_nothing_known() -> None:
    run = mixed()
    found = BinaryColumns().attack(run.active())
    truth = run.data.blocks[1][found.rows, :4]
    assert found.rank == 8
    assert sorted(map(tuple, found.values.T.tolist())) == sorted(map(tuple, truth.T.tolist()))
    assert found.facts()["columns"] == 4


def test_numbers_alone_and_fewer_units_than_columns_tell_nothing() -> None:
    blocks, labels = breast_cancer(columns=8)
    numbers = BinaryColumns().attack(network_run(blocks, labels, epochs=1).active())
    assert numbers.values.shape[1] == 0
    assert "no column of the passive parties" in numbers.reason
    hidden = BinaryColumns().attack(mixed(hidden=6).active())
    assert hidden.reason == "Not possible: 6 units for 8 columns, so that units hide them."


def test_noise_of_a_thousandth_part_ends_it() -> None:
    found = BinaryColumns().attack(mixed().active(noise=0.01))
    assert found.values.shape[1] == 0
    assert found.reason


def test_too_few_records_are_refused_and_so_is_a_passive_party() -> None:
    run = mixed(batch=20)
    assert "40 records more than directions" in BinaryColumns().attack(run.active()).reason
    with pytest.raises(ViewError, match="needs forwarded"):
        BinaryColumns().attack(run.passive())


@pytest.mark.skipif(not has_flint(), reason="needs python-flint, of the extra lab")
def test_of_more_directions_than_patterns_can_be_tried_a_lattice_finds_categories_and_nothing_else() -> None:
    generator = np.random.default_rng(0)
    categories = np.hstack([np.eye(4)[generator.choice(4, 250, p=[0.4, 0.3, 0.2, 0.1])] for _ in range(6)])
    numbers = np.rint(generator.random((250, 4)) * 2**16) / 2**16
    labels = generator.integers(0, 2, 250)
    own = generator.random((250, 2))
    blocks = [own, np.hstack([categories, numbers])]
    found = BinaryColumns().attack(network_run(blocks, labels, batch=250, epochs=1, hidden=32).active())
    truth = categories[found.rows]
    assert found.rank == 23  # the last category of each but one follows from the others
    is_true = [(truth == one[:, None]).all(axis=0).any() for one in found.values.T]
    assert all(is_true)
    assert len(is_true) >= 17
    # The same numbers of other records: nothing is whole in all of them.
    alone = [own, np.rint(generator.random((250, 20)) * 2**16) / 2**16]
    nothing = BinaryColumns().attack(network_run(alone, labels, batch=250, epochs=1, hidden=32).active())
    assert nothing.values.shape[1] == 0
    assert nothing.reason


def test_without_flint_many_directions_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attacks.training.binary_columns.has_flint", lambda: False)
    blocks = [np.random.default_rng(0).random((250, columns)) for columns in (2, 20)]
    run = network_run(blocks, np.arange(250) % 2, batch=250, epochs=1, hidden=32)
    assert "pip install" in BinaryColumns().attack(run.active()).reason
