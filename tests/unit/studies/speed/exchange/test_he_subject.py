"""Tiny exchanges: every variant is there, exact, and measured beside its limit; one that is wrong stops all."""

from collections.abc import Sequence

import pytest

from studies.speed.exchange import he_subject
from studies.speed.exchange.he_subject import BASELINE, ExchangesAsked, measure_exchanges, parse_exchanges
from studies.speed.exchange.work import KINDS
from studies.speed.machine import kernels_here
from studies.speed.repetition import WrongResult
from studies.speed.result import Spread
from vfl.crypto.kernels import Kernel, PortableKernel, ProductTask


@pytest.mark.parametrize("kind", KINDS)
def test_an_exchange_has_every_variant_with_its_spread(kind: str) -> None:
    result = measure_exchanges(ExchangesAsked(((kind, 3),), batch=5, key_bits=512, repetitions=2))
    (table,) = result.tables
    assert table.key == f"{kind} 3"
    names = [str(row["variant"]) for row in table.rows]
    assert {"phe, floats", BASELINE, "ours, portable", "ours, portable, packing off"} <= set(names)
    assert {f"ours, {kernel}" for kernel in kernels_here()} <= set(names)
    for row in table.rows:
        total = row["total"]
        assert isinstance(total, Spread)
        assert 0 < total.least <= total.median <= total.most
        assert total.runs == 2
        if str(row["variant"]).startswith("ours"):
            assert isinstance(row["limit"], Spread)
            assert row["limit"].median > 0
    baseline = table.row(variant=BASELINE)
    assert baseline is not None
    assert baseline["times"] == 1.0


def test_growth_and_workers_are_measured_where_asked() -> None:
    result = measure_exchanges(
        ExchangesAsked((("one-hot", 2),), batch=4, key_bits=256, repetitions=1, workers=2, scaling=True)
    )
    assert result.command == (
        "plumbline bench he --columns one-hot:2 --scaling --repetitions 1 --batch 4 --key-bits 256 --workers 2"
    )
    assert [table.key for table in result.tables] == ["one-hot 2", "scaling", "workers"]
    workers = result.table("workers")
    assert workers is not None
    assert {row["workers"] for row in workers.rows} == {1, 2}
    scaling = result.table("scaling")
    assert scaling is not None
    assert {row["varied"] for row in scaling.rows} == {"rows", "columns", "digits"}


class Wrong(PortableKernel):
    """Off by one factor in the last answer."""

    def product(self, ciphertexts: Sequence[int], task: ProductTask, modulus: int) -> list[int]:
        *right, last = super().product(ciphertexts, task, modulus)
        return [*right, last * ciphertexts[0] % modulus]


def test_a_kernel_that_computes_wrongly_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels: dict[str, Kernel] = {"portable": Wrong()}
    monkeypatch.setattr(he_subject, "kernels_here", lambda: kernels)
    with pytest.raises(WrongResult, match="another result than integer arithmetic"):
        measure_exchanges(ExchangesAsked((("dense", 2),), batch=4, key_bits=256, repetitions=1))


def test_exchanges_are_read_from_words() -> None:
    assert parse_exchanges(["dense:392", "one-hot:4"]) == (("dense", 392), ("one-hot", 4))


@pytest.mark.parametrize("word", ["dense", "dense:0", "sparse:3", "dense:x", "one-hot:-2", ""])
def test_other_words_are_refused_with_an_example(word: str) -> None:
    with pytest.raises(ValueError, match="such as one-hot:100"):
        parse_exchanges([word])
