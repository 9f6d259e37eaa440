"""Days since 1970 as dates: in words, and as ticks where people expect them, at the starts of years and months."""

from datetime import date, timedelta

from plumbline.charts.axes import Values, ticks

_EPOCH = date(1970, 1, 1)
_FIRST, _LAST = (date.min - _EPOCH).days, (date.max - _EPOCH).days
_YEAR, _MONTH = 365, 28
# Months between ticks that divide a year.
_MONTHS = (1, 2, 3, 6)


def day_words(days: float, step: float = 0.0) -> str:
    """Write the date of a number of days since 1970; by year or month where the step between ticks is that long."""
    if not _FIRST <= round(days) <= _LAST:
        return "-"
    written = (_EPOCH + timedelta(days=round(days))).isoformat()
    return written[:4] if step >= _YEAR else written[:7] if step >= _MONTH else written


def day_ticks(low: float, high: float, most: int) -> list[float]:
    """List starts of years, else of months, else whole days from ``low`` to ``high``, ``most`` intervals or fewer."""
    if low < _FIRST or high > _LAST:
        return ticks(low, high, most)
    first, last = (_EPOCH + timedelta(days=round(end)) for end in (low, high))
    years = [
        year
        for year in map(int, ticks(first.year, last.year + 1, most, whole=True))
        if date.min.year <= year <= date.max.year
    ]
    positions = _within([date(year, 1, 1) for year in years], low, high)
    return positions if len(positions) > 1 else _month_ticks(first, last, most) or ticks(low, high, most, whole=True)


def _month_ticks(first: date, last: date, most: int) -> list[float]:
    """List starts of months; none where there are fewer than two or too many."""
    months = range(12 * first.year + first.month - 1, 12 * last.year + last.month)
    for step in _MONTHS:
        starts = [date(month // 12, month % 12 + 1, 1) for month in months if month % step == 0]
        positions = _within(starts, (first - _EPOCH).days, (last - _EPOCH).days)
        if 1 < len(positions) <= most + 1:
            return positions
    return []


def _within(dates: list[date], low: float, high: float) -> list[float]:
    return [float(days) for days in ((one - _EPOCH).days for one in dates) if low <= days <= high]


DAYS = Values(day_words, day_ticks)
