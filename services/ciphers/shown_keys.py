"""A session's Paillier key as it is shown to the peers: its modulus, and the proof that this is well-formed."""

from services.common.agreement import Agreement
from services.common.errors import InvalidMessage, one_line
from services.exchange.vectors import PublicKeyShown
from vfl.crypto import (
    PROOF_ROOTS,
    InvalidCiphertext,
    MalformedModulus,
    PrivateKey,
    PublicKey,
    check_modulus,
    from_bytes,
    modulus_context,
    prove_modulus,
    to_bytes,
)


def shown_key(agreement: Agreement, name: str, private_key: PrivateKey, purpose: str = "") -> PublicKeyShown:
    """Show a party's key, with a proof that is worth nothing in another session, or for another party or purpose."""
    public_key = private_key.public_key
    proof = prove_modulus(private_key, _context(agreement, name, purpose))
    content = to_bytes((public_key.n, *proof), agreement.plan.key_bits // 8)
    return PublicKeyShown(public_key.key_id, content, purpose=purpose)


def checked_key(agreement: Agreement, peer: str, key: PublicKeyShown) -> PublicKey:
    """Read a peer's key; raises InvalidMessage for one that doesn't fit the terms or isn't proved well-formed."""
    bits = agreement.plan.key_bits
    try:
        n, *roots = from_bytes(key.content, 1 + PROOF_ROOTS, bits // 8)
        public_key = PublicKey(n)
        check_modulus(public_key, bits, _context(agreement, peer, key.purpose), roots)
    except (InvalidCiphertext, MalformedModulus) as error:
        raise InvalidMessage(f"{peer}'s key is refused: {error}") from error
    if public_key.key_id != key.key_id:
        raise InvalidMessage(f"Wrong key id: this modulus has {public_key.key_id}, got {one_line(key.key_id)}.")
    return public_key


def _context(agreement: Agreement, name: str, purpose: str) -> bytes:
    return modulus_context(" ".join(filter(None, (agreement.session_id, purpose))), name)
