"""How a party comes to its sides of a session: to one when it begins, and to another after each interruption."""

from collections.abc import Callable

from services.party.resumption import Resumption
from services.party.side import Side, SideSetting
from services.party.watched_side import watched


class Seating:
    """Takes sides as the plan's protocol makes them; whoever deviates or listens takes its seat here."""

    def __init__(self, setting: SideSetting) -> None:
        """Take what an honest side is made of."""
        self._setting, self._protocol = setting, setting.agreement.plan.training
        self._bare: Side

    def first(self) -> Side:
        """Take the side that a session begins with."""
        return self._seated(self._protocol.side)

    def resumed(self, resumption: Resumption) -> Side:
        """Take the side that goes on from the one before."""
        before = self._bare
        return self._seated(lambda setting: self._protocol.resumed(setting, before, resumption))

    def _seated(self, make: Callable[[SideSetting], Side]) -> Side:
        def made(setting: SideSetting) -> Side:
            self._bare = make(setting)
            return watched(setting, self._bare)

        seated: Side = self._setting.means.seat(self._setting, made)
        return seated
