"""Cores are counted as the kernel grants them, in either version of control groups."""

from pathlib import Path

import pytest

from vfl.cores import available_cores, cores

QUOTAS = {
    "version 2": ("0::/a/b\n", {"a/b/cpu.max": "150000 100000"}, [1.5]),
    "version 2, a parent's quota counts as well": (
        "0::/a/b\n",
        {"a/b/cpu.max": "max 100000", "a/cpu.max": "300000 100000", "cpu.max": "max 100000"},
        [3.0],
    ),
    "version 2, a container's root": ("0::/\n", {"cpu.max": "50000 100000"}, [0.5]),
    "version 2, the host's path seen from a container": ("0::/../host\n", {"cpu.max": "200000 100000"}, [2.0]),
    "version 1": (
        "3:memory:/x\n1:cpu,cpuacct:/x\n0::/\n",
        {"cpu,cpuacct/x/cpu.cfs_quota_us": "400000", "cpu,cpuacct/x/cpu.cfs_period_us": "100000"},
        [4.0],
    ),
    "version 1 without a quota": (
        "1:cpu:/\n",
        {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"},
        [],
    ),
    "nothing is mounted": ("0::/\n", {}, []),
    "nonsense": ("0::/\n", {"cpu.max": "many"}, []),
}


@pytest.mark.parametrize("case", QUOTAS)
def test_quotas_of_control_groups(tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    membership, files, expected = QUOTAS[case]
    for name, text in files.items():
        file = tmp_path / "mount" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    (tmp_path / "membership").write_text(membership)
    monkeypatch.setattr(cores, "_MOUNT", tmp_path / "mount")
    monkeypatch.setattr(cores, "_MEMBERSHIP", tmp_path / "membership")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert list(cores._quotas(cores._MOUNT, cores._MEMBERSHIP)) == expected
    assert available_cores() == (max(1, min(8, -int(-expected[0] // 1))) if expected else 8)


def test_pinned_processes_count_what_they_are_pinned_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "_MEMBERSHIP", tmp_path / "missing")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {3}, raising=False)
    assert available_cores() == 1
    monkeypatch.delattr("os.sched_getaffinity")
    monkeypatch.setattr("os.cpu_count", lambda: 6)
    assert available_cores() == 6
