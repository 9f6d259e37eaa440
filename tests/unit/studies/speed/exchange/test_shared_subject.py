"""`plumbline bench shared`: both protocols, every kernel, the same numbers."""

import pytest

from studies.speed.exchange.own_exchange import warmed
from studies.speed.exchange.shared_subject import SharedStep, SharingAsked, measure_sharing
from studies.speed.exchange.work import KINDS, make_work
from studies.speed.repetition import WrongResult
from vfl.crypto import keygen
from vfl.crypto.kernels import PortableKernel
from vfl.crypto.sharing.masked_products import multiply


def test_both_protocols_are_timed_on_the_same_numbers() -> None:
    result = measure_sharing(SharingAsked((3, 9), batch=5, key_bits=512, repetitions=2))
    assert result.command == "plumbline bench shared --columns 3 --columns 9 --repetitions 2 --batch 5 --key-bits 512"
    for columns in (3, 9):
        table = result.table(str(columns))
        assert table is not None
        kernels = {row["kernel"] for row in table.rows}
        assert {(row["protocol"], row["kernel"]) for row in table.rows} == {
            (p, k) for p in ("hu", "shared") for k in kernels
        }
        for row in table.rows:
            assert (row["protocol"] == "hu") == (row["times"] == 1 and "begin" not in row)


def test_a_wrong_product_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    _, private_key = keygen(512, insecure=True)
    step = SharedStep(make_work(private_key, 4, 2, KINDS["dense"]), warmed(PortableKernel(), private_key))
    step.run()
    monkeypatch.setattr(
        "studies.speed.exchange.shared_subject.multiply", lambda *task: [one + 1 for one in multiply(*task)]
    )
    with pytest.raises(WrongResult):
        step.run()
