"""A tiny alignment message by message and in two processes, and one that finds the wrong ids."""

from collections.abc import Iterable

import pytest

from studies.speed.alignment import alignments, psi_subject
from studies.speed.alignment.alignments import STAGES, check_common, ids_of
from studies.speed.alignment.psi_subject import PsiAsked, measure_psi
from studies.speed.repetition import WrongResult
from studies.speed.result import Spread
from vfl.data import PsiClient


@pytest.mark.slow("it starts processes, whose memory and workers are measured")
def test_every_message_has_its_side_and_its_spread() -> None:
    result = measure_psi(PsiAsked(ids=40, whole=(60,), repetitions=2, workers=2))
    table = result.table("messages")
    assert table is not None
    row = table.row(variant="plumbline")
    assert row is not None
    stages = [row[stage.replace("-", "_")] for stage in STAGES]
    assert all(isinstance(one, Spread) and one.runs == 2 for one in stages)
    whole = result.table("whole")
    assert whole is not None
    assert [one["role"] for one in whole.rows] == ["server", "client"]
    assert all(one["memory"] > 0 for one in whole.rows)  # type: ignore[operator]
    workers = result.table("workers")
    assert workers is not None
    assert [one["workers"] for one in workers.rows] == [1, 2]


def test_another_intersection_stops_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    common = ids_of("client", 10)[:5]
    check_common("ours", common, 10)
    for wrong in (common[:-1], common[::-1], [*common, "r0000012"]):
        with pytest.raises(WrongResult, match="ours found another intersection"):
            check_common("ours", wrong, 10)

    class Forgetful(PsiClient):
        def intersect(self, response: Iterable[bytes]) -> list[str]:
            return list(super().intersect(response))[1:]

    monkeypatch.setattr(alignments, "PsiClient", Forgetful)
    with pytest.raises(WrongResult, match="plumbline found another intersection"):
        psi_subject.measure_psi(PsiAsked(ids=20, whole=(), repetitions=1))
