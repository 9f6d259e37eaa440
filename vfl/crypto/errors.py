"""What can be wrong with keys, numbers and ciphertexts; every message says what to do about it."""


class InsecureKey(ValueError):
    """A key too short to protect anything was asked for without saying so in plain words.

    Examples:
        >>> keygen(1024)
        Traceback (most recent call last):
            ...
        vfl.crypto.errors.InsecureKey: A 1024-bit key protects nothing: use bits=2048 or more ...
    """


class MalformedKey(ValueError):
    """The numbers do not make a Paillier key.

    Examples:
        >>> PrivateKey(7, 8)
        Traceback (most recent call last):
            ...
        vfl.crypto.errors.MalformedKey: Both factors of a Paillier modulus must be prime.
    """


class KeyMismatch(ValueError):
    """A ciphertext was made under another key.

    Examples:
        >>> (bank, _), (_, fintech) = keygen(256, insecure=True), keygen(256, insecure=True)
        >>> decrypt_vector(fintech, encrypt_vector(bank, [0.5]))
        Traceback (most recent call last):
            ...
        vfl.crypto.errors.KeyMismatch: Encrypted under key ..., not under ...: decrypt with the private key ...
    """


class FixedPointOverflow(ValueError):
    """A value is not finite, or lies outside the window of its fixed-point format.

    Examples:
        >>> FixedPoint(fraction_bits=16, integer_bits=0).encode([0.5, float("nan")])
        Traceback (most recent call last):
            ...
        vfl.crypto.errors.FixedPointOverflow: Value at index (1,) is NaN or infinite; remove ...
    """


class LayoutMismatch(ValueError):
    """A vector or matrix does not have the shape or the format that both parties agreed on.

    Examples:
        >>> encrypt_vector(keygen(256, insecure=True)[0], [])
        Traceback (most recent call last):
            ...
        vfl.crypto.errors.LayoutMismatch: Expected (s,) or (s, k) values, at least one, got values.shape=(0,).
    """


class PackingImpossible(ValueError):
    """The values of one row do not fit into one plaintext of this key.

    Examples:
        >>> columns = ColumnFormats(((BYTE, 3),))
        >>> layouts_for([columns], batch_size=8, classes=10, residual_format=RESIDUAL, key_bits=256)
        Traceback (most recent call last):
            ...
        vfl.crypto.errors.PackingImpossible: A record's 10 values (...) need 10 slots, a 256-bit key has 4: ...
    """


class InvalidAnswer(ValueError):
    """A key holder's answer is not a residue, or unmasks to what no honest product can be.

    Examples:
        >>> _, mask = mask_vector(encrypt_vector(keygen(256, insecure=True)[0], [0.5]))
        >>> unmask(mask, [-1])
        Traceback (most recent call last):
            ...
        vfl.crypto.errors.InvalidAnswer: Residue 0 is not in [0, n).
    """
