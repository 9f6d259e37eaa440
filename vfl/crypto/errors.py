"""What can be wrong with keys, numbers and ciphertexts; every message says what to do about it."""


class InsecureKey(ValueError):
    """A key too short to protect anything was asked for without saying so in plain words."""


class MalformedKey(ValueError):
    """The numbers do not make a Paillier key."""


class KeyMismatch(ValueError):
    """A ciphertext was made under another key."""


class FixedPointOverflow(ValueError):
    """A value is not finite, or lies outside the window of its fixed-point format."""


class LayoutMismatch(ValueError):
    """A vector or matrix does not have the shape or the format that both parties agreed on."""


class PackingImpossible(ValueError):
    """The values of one row do not fit into one plaintext of this key."""


class InvalidAnswer(ValueError):
    """A key holder's answer is not a residue, or unmasks to what no honest product can be."""
