"""`plumbline bench network`: a linear step and both encrypted rungs, every kernel, the same columns."""

from typing import Any

import pytest

from studies.speed.federations import network_subject
from studies.speed.federations.network_subject import (
    PROTOCOL,
    LayerCryptography,
    NetworksAsked,
    measure_networks,
)
from studies.speed.repetition import WrongResult
from vfl.crypto.kernels import PortableKernel
from vfl.crypto.sharing.padded_products import kept


def test_each_rung_is_timed_beside_protocol_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_subject, "kernels_here", lambda: {"portable": PortableKernel()})
    asked = NetworksAsked((2, 3), hidden=2, batch=6, key_bits=512, repetitions=2)
    result = measure_networks(asked)
    assert result.command == (
        "plumbline bench network --columns 2 --columns 3 --repetitions 2 --hidden 2 --batch 6 --key-bits 512"
    )
    for columns in (2, 3):
        table = result.table(str(columns))
        assert table is not None
        assert [row["trained"] for row in table.rows] == [PROTOCOL, "paillier", "shared"]
        linear, paillier, shared = table.rows
        assert linear["times"] == linear["bytes_times"] == 1
        # Six records' signals and forwarded products, and one direction of sums; what is padded travels twice.
        assert 0 < paillier["bytes"] < shared["bytes"]  # type: ignore[operator]


def test_a_wrong_share_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    agreement = NetworksAsked((2,), hidden=2, batch=6, key_bits=512).agreements(2)["shared"]
    alone = LayerCryptography(agreement, PortableKernel())
    assert alone.step() > 0

    def wrong(*asked: Any) -> Any:
        return kept(*asked) + 2

    monkeypatch.setattr(network_subject, "kept", wrong)
    with pytest.raises(WrongResult, match="don't join"):
        alone.step()
