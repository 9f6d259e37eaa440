"""Numbers as a person reads them: the same one is said alike on console, pages, annex and in notebooks.

Counts with their noun are said by ``vfl.data.faults.counted``, which tables' own messages need as well.
"""

import math
from typing import Protocol

# Of a share that is nothing or everything but for how floats add up.
_HARDLY = 1e-9


class Between(Protocol):
    """A share with its 95 % interval, each from 0 to 1."""

    @property
    def mean(self) -> float:
        """The estimate."""

    @property
    def low(self) -> float:
        """Lower end of the interval."""

    @property
    def high(self) -> float:
        """Upper end of the interval."""


def percent(share: float | None, places: int = 0) -> str:
    """Write a share in percent, a dash for None; 0 and 100 are said of nothing and everything only.

    Examples:
        >>> percent(0.74), percent(0.996), percent(0.002), percent(1.0), percent(0.1234, 1)
        ('74 %', 'over 99 %', 'under 1 %', '100 %', '12.3 %')
    """
    if share is None:
        return "-"
    digits, least = hundredths(share, places), 10.0**-places
    if float(digits) == 100 and share < 1 - _HARDLY:
        return f"over {100 - least:.{places}f} %"
    return f"under {least:.{places}f} %" if float(digits) == 0 and share > _HARDLY else f"{digits} %"


def hundredths(share: float, places: int = 0) -> str:
    """Write a share's figure in percent, for a scale or a table whose heading says the unit."""
    # No minus before nothing.
    return f"{round(100 * share, places) + 0.0:.{places}f}"


def share_words(share: Between, places: int = 0) -> str:
    """Write a share with its interval: ``43 % (38 to 48)``."""
    return f"{percent(share.mean, places)} ({hundredths(share.low, places)} to {hundredths(share.high, places)})"


def seconds(count: float) -> str:
    """Say how long something takes, as exactly as one can tell: ``21 s``, ``4 min``, ``2 h 10 min``."""
    if count < 99.5:
        return f"{math.ceil(count)} s"
    minutes = round(count / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def span_words(low: float, high: float) -> str:
    """Say between what something takes: ``4 to 11 s``, ``40 s to 2 min``, ``2 h 10 min to 6 h 2 min``."""
    least, most = seconds(low), seconds(high)
    if least == most:
        return most
    number, _, unit = least.partition(" ")
    return f"{number if unit == most.partition(' ')[2] else least} to {most}"
