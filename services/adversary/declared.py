"""What an adversary knows of a session's defences: their channels, from the names and options that all are told.

What can't be told from here is undeclared: a defence that isn't installed, options that it refuses or that are private.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

import defences
from defences import Defence
from services.common.agreement import Agreement
from services.common.announced import AnnouncedDefence
from services.common.errors import one_line
from vfl.channels import Distorted, ParameterChannel, ScoreChannel, Undeclared

_log = logging.getLogger(__name__)

T = TypeVar("T")


def score_channels(agreement: Agreement) -> tuple[ScoreChannel, ...]:
    """List what the coordinator lets pass of scores, one channel per defence, in their order."""
    announcements: Sequence[AnnouncedDefence | None] = agreement.announced or [None] * len(agreement.score_defences)
    return tuple(
        _said(name, one, lambda defence: defences.channel_of(defence, agreement.classes))
        for name, one in zip(agreement.score_defences, announcements, strict=True)
    )


def disclosure(agreement: Agreement) -> ParameterChannel | None:
    """Say how class rows that all passive parties disclose, side by side, differ from those that scores follow from."""
    return _side_by_side([_of_party(party.disclosure_defences) for party in agreement.parties[1:]])


def _of_party(announced: Sequence[AnnouncedDefence]) -> ParameterChannel | None:
    channels = (_said(told.name, told, defences.disclosure_of) for told in announced)
    return least_known([one for one in channels if one is not None])


def least_known(channels: Sequence[ParameterChannel]) -> ParameterChannel | None:
    """Say what several defences of one party's parameters are worth one after the other: the least known of them."""
    if len(channels) < 2:
        return channels[0] if channels else None
    return next((one for one in channels if isinstance(one, Undeclared)), _any(channels))


def _side_by_side(parts: Sequence[ParameterChannel | None]) -> ParameterChannel | None:
    """Put blocks of rows side by side: turned blocks make a turned whole where all are turned about the same point."""
    if len(set(parts)) == 1:
        return parts[0]
    if undeclared := [part for part in parts if isinstance(part, Undeclared)]:
        return undeclared[0]
    turned = [part for part in parts if isinstance(part, Distorted)]
    abouts = {part.about for part in turned}
    if "any" in {part.kind for part in turned} or len(abouts) > 1:
        return _any(parts)
    return Distorted("orthonormal", abouts.pop())


def _any(channels: Sequence[ParameterChannel | None]) -> Distorted:
    return Distorted("any", sign_is_guess=all(isinstance(one, Distorted) and one.sign_is_guess for one in channels))


def _said(name: str, announced: AnnouncedDefence | None, say: Callable[[Defence], T]) -> T | Undeclared:
    """Ask what a defence says of itself."""
    if announced is None or announced.withheld:
        _log.info("What %s lets pass is not told.", name)
        return Undeclared(name)
    try:
        return say(_loaded(announced))
    except Exception as error:  # another party's words, or another package's code: an attack goes on without
        _log.warning("What %s lets pass is unknown here: %s", name, one_line(str(error)))
        return Undeclared(name)


def _loaded(announced: AnnouncedDefence) -> Defence:
    options = announced.values()
    # No other party has this one open its own files, say.
    if private := set(options) & set(getattr(defences.defence_class(announced.name), "private_options", ())):
        raise ValueError(f"{', '.join(sorted(private))} of {announced.name} is for its own party alone.")
    loaded: Defence = defences.load(announced.name, **options)
    return loaded
