"""Channels of disclosed parameters."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from vfl.channels.scores import Undeclared


@dataclass(frozen=True)
class Distorted:
    """Disclosed class rows are not those that scores follow from.

    Attributes:
        kind: what is known of the difference. "negated": W (-I); "orthonormal": W H^T for a secret H;
            "any": nothing but that it is bounded.
        about: the point c about which features were turned, H (x - c) + c, as far as the bias is concerned.
        sign_is_guess: whether -I is worth a try: the distortion is, or is near, -I.
    """

    kind: Literal["negated", "orthonormal", "any"]
    about: float = 0.0
    sign_is_guess: bool = False


ParameterChannel: TypeAlias = Distorted | Undeclared
