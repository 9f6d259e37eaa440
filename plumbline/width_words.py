"""What others see of how wide a party's columns are, in words for people."""

from collections.abc import Sequence

from services.common.agreement import PartyDescription
from vfl.data import Grid, width_of
from vfl.data.faults import counted

_DIGITS = {"binary": "1", "byte": "8", "full": "full"}


def narrow_words(binary: int, byte: int) -> str:
    """Say how many features take few digits: ``4 binary, 9 byte``; empty where none does."""
    return ", ".join(f"{count} {name}" for count, name in ((binary, "binary"), (byte, "byte")) if count)


def seen_words(party: PartyDescription) -> str:
    """Say what every other party and the coordinator learn of a party's columns before training."""
    count = counted(party.feature_count, "feature")
    narrow = narrow_words(party.binary_features, party.byte_features)
    if not narrow:
        return f"all others see their number: {count}, of one width"
    return (
        f"all others see their number: {count}; and how many take 1 or 8 binary digits in place of all: {narrow}. "
        "PLUMBLINE_PAD_WIDTHS=true keeps the latter"
    )


def digits_words(grids: Sequence[Grid | None]) -> str:
    """Say how many binary digits the features of one column take: ``8``, ``full and 1``, ``1 each``."""
    digits = [_DIGITS[width_of(grid)] for grid in grids]
    different = list(dict.fromkeys(digits))
    return f"{digits[0]} each" if len(digits) > len(different) == 1 else " and ".join(different)
