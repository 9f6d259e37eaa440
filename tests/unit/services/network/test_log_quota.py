"""How many lines others can make this party's log write."""

import logging

import pytest

from services.network import log_quota
from services.network.log_quota import LogQuota


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_five_lines_a_minute_of_a_kind_and_a_count_of_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    quota = LogQuota(clock)
    assert [quota.admits("Align of passive", "InvalidMessage") for _ in range(1000)] == [True] * 5 + [False] * 995
    assert quota.admits("Align of passive", "NotAllowed")
    assert quota.admits("Align of active", "InvalidMessage")
    clock.now = 59.9
    quota.tell_the_rest()
    assert not caplog.records
    clock.now = 60.0
    quota.tell_the_rest()
    quota.tell_the_rest()
    assert caplog.messages == ["995 more within a minute: Align of passive, InvalidMessage."]
    assert caplog.records[0].levelno == logging.WARNING
    assert quota.admits("Align of passive", "InvalidMessage")


def test_the_rest_is_told_by_the_next_event_as_well(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    quota = LogQuota(clock)
    for _ in range(7):
        quota.admits("kind")
    clock.now = 61.0
    assert quota.admits("another")
    assert caplog.messages == ["2 more within a minute: kind."]


def test_ever_new_kinds_share_one_quota_in_the_end() -> None:
    quota = LogQuota(Clock())
    written = sum(quota.admits(str(number)) for number in range(10 * log_quota._MOST_KINDS))
    assert written <= log_quota._MOST_KINDS + 5
