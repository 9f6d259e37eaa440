"""What a session shows to whom, counted once: what guards weigh, a ledger lists and forecasts of leakage read."""

from typing import Literal

# What a guard does about what a session may tell: a party's own setting.
Mode = Literal["warn", "refuse", "off"]
