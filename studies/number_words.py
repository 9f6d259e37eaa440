"""Numbers as sentences and tables of studies have them."""

import math

# A number below this is written with a power of ten, as is a larger one than the other.
_SMALLEST, _LARGEST = 1e-5, 1e9
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number_words(value: float, digits: int = 2) -> str:
    """Write a number for reading, with so many digits that count: 0.00076, 34, 1,200,000, 6.1 × 10⁻¹⁴, ∞."""
    if not math.isfinite(value):
        return "" if math.isnan(value) else "∞" if value > 0 else "-∞"
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])
    if value and not _SMALLEST <= abs(value) < _LARGEST:
        return f"{value:.{digits - 1}e}".partition("e")[0] + " × 10" + str(exponent).translate(_RAISED)
    decimals = max(0, digits - 1 - exponent) if value else 0
    return f"{round(value, digits - 1 - exponent):,.{decimals}f}"
