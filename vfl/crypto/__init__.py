"""Paillier for a vertical federation: keys, fixed point, packing, and the encrypted matrix product.

What stands here is public, and ``kernels.Kernel``, which says what a kernel promises; the other modules are private.

Examples:
    >>> import numpy as np
    >>> from vfl.crypto import decrypt_integers, encrypt_vector, keygen, mask_vector, matvec, unmask
    >>> public_key, private_key = keygen(bits=512, insecure=True)  # 2048 bits unless told otherwise
    >>> c = encrypt_vector(private_key, np.array([0.5, -0.25]))    # the key holder
    >>> masked, mask = mask_vector(matvec(np.array([[1.0, 0.5], [0.0, 1.0]]), c))  # the other party
    >>> unmask(mask, decrypt_integers(private_key, masked))        # X.T @ g, to the fixed-point precision
    array([0.5, 0. ])
"""

from vfl.crypto.capacity import (
    WRAP_BITS,
    AnswerCapacity,
    StepProduct,
    answer_capacity,
    count_equations,
    honest_answer_bits,
    truncate,
)
from vfl.crypto.engine import Engine
from vfl.crypto.errors import (
    FixedPointOverflow,
    InsecureKey,
    InvalidAnswer,
    KeyMismatch,
    LayoutMismatch,
    MalformedKey,
    PackingImpossible,
)
from vfl.crypto.fixed_point import RESIDUAL, FixedPoint
from vfl.crypto.kernels import InvalidCiphertext
from vfl.crypto.keys import PrivateKey, PublicKey, keygen
from vfl.crypto.modulus_proof import (
    PROOF_ROOTS,
    MalformedModulus,
    check_modulus,
    modulus_context,
    prove_modulus,
)
from vfl.crypto.packing import PackingLayout, layouts_for
from vfl.crypto.vectors import (
    CipherVector,
    Mask,
    ciphertext_count,
    decrypt_integers,
    decrypt_vector,
    encrypt_vector,
    mask_vector,
    matvec,
    unmask,
)
from vfl.crypto.widths import BINARY, BYTE, ColumnFormats, ColumnWidths, EntryFormat
from vfl.crypto.wire import check_ciphertexts, ciphertext_width, from_bytes, to_bytes

__all__ = [
    "BINARY",
    "BYTE",
    "PROOF_ROOTS",
    "RESIDUAL",
    "WRAP_BITS",
    "AnswerCapacity",
    "CipherVector",
    "ColumnFormats",
    "ColumnWidths",
    "Engine",
    "EntryFormat",
    "FixedPoint",
    "FixedPointOverflow",
    "InsecureKey",
    "InvalidAnswer",
    "InvalidCiphertext",
    "KeyMismatch",
    "LayoutMismatch",
    "MalformedKey",
    "MalformedModulus",
    "Mask",
    "PackingImpossible",
    "PackingLayout",
    "PrivateKey",
    "PublicKey",
    "StepProduct",
    "answer_capacity",
    "check_ciphertexts",
    "check_modulus",
    "ciphertext_count",
    "ciphertext_width",
    "count_equations",
    "decrypt_integers",
    "decrypt_vector",
    "encrypt_vector",
    "from_bytes",
    "honest_answer_bits",
    "keygen",
    "layouts_for",
    "mask_vector",
    "matvec",
    "modulus_context",
    "prove_modulus",
    "to_bytes",
    "truncate",
    "unmask",
]
