"""Upper limits of every number and size that another party or an operator may send, in one place, each with its reason.

What is beyond a limit is refused before anything is allocated for it. A limit that a session agrees on is tighter: a
vector has exactly the agreed number of bytes, rows are the aligned ones. These hold where nothing is agreed on yet.
"""

import re
from collections.abc import Sequence, Sized

from services.common.errors import InvalidMessage
from services.common.identity import Role, role_of
from vfl.data.id_array import MOST_ID_BYTES
from vfl.data.psi import MOST_IDS

# The scores of PREDICTION_ROWS records still fit one message of 4 MiB.
CLASSES = 100
# Rows per prediction request.
PREDICTION_ROWS = 4_096
# Of all rows of a request, which has fewer where PREDICTION_ROWS wouldn't fit: of a row at most as many.
SHARE_VALUES = PREDICTION_ROWS * CLASSES
# Columns of one party. What a step sends grows with them: VECTOR_BYTES limits the product.
FEATURES = 10_000
# 2^20 is the largest magnitude whose products still fit the fixed point.
FEATURE_INTEGER_BITS = 20
# A table's, by the set intersection: 256 MB of blinded ids.
ALIGNED_ROWS = MOST_IDS
# UTF-8 bytes of one record id: IDS_PER_PART of them still fit one message of 4 MiB.
ID_BYTES = MOST_ID_BYTES
IDS_PER_PART = 1_000
EPOCHS = 10_000
BATCH_SIZE = 1 << 20
# That a plan chooses by itself: smaller batches make noisy steps.
CHOSEN_BATCH = 64
# Of a session: each leaves a record of some 500 bytes in every party.
STEPS = 1_000_000
# One a counted answer: SQLite's integers have room for it.
LEDGER_WRITES = 1 << 53
# All epochs' weights of one party stay in memory until one is kept.
KEPT_WEIGHTS_BYTES = 256 << 20
# One step's ciphertexts from one party to another; a party holds up to four such vectors per peer.
VECTOR_BYTES = 256 << 20
# On shared weights, of all others' features, until the session ends: 100,000 records x 100 columns are some 735 MB.
FEATURE_CIPHERTEXT_BYTES = 1 << 30
# Each waits for every other one in every step.
PASSIVE_PARTIES = 32
# A certificate's common name has no more.
NAME_LETTERS = 64
# Defences that a coordinator, or a passive party, announces.
SCORE_DEFENCES = 32
DISCLOSURE_DEFENCES = 32
# Bytes of the JSON of one plugin's options, and how many options may be withheld: ours have a few numbers and words.
OPTIONS_BYTES = 4_096
OPTIONS = 32
# Arrays of a disclosed part of a model; their sizes are bounded by one message.
PART_ARRAYS = 65
# Of a share of a logit, a Gram matrix's entry, and a disclosed weight: the square of the sum of all parties' shares is
# still a finite number.
LARGEST_SHARE = 1e150
# A session id is 16 random bytes of the coordinator.
_SESSION_ID = re.compile(r"[0-9a-f]{32}")


def check_session_id(session_id: str) -> None:
    """Raise InvalidMessage for what no coordinator has made."""
    if not session_id:
        raise InvalidMessage("The session id is empty: open a session at the coordinator first.")
    if not _SESSION_ID.fullmatch(session_id):
        raise InvalidMessage("This is no session id: the coordinator makes ids of 32 hexadecimal digits.")


def check_name(name: str) -> None:
    """Raise InvalidMessage for what no party or defence can be called."""
    if not 1 <= len(name) <= NAME_LETTERS or not name.isprintable():
        raise InvalidMessage(f"Expected names of 1 to {NAME_LETTERS} printable letters.")


def check_count(items: int | Sized, most: int, what: str, *, least: int = 0) -> None:
    """Raise InvalidMessage unless there are ``least`` to ``most`` of something."""
    count = items if isinstance(items, int) else len(items)
    if not least <= count <= most:
        raise InvalidMessage(f"Expected {least} to {most} {what}, got {count}.")


def check_classes(classes: int) -> None:
    """Raise InvalidMessage for labels of so many classes that nothing can be learned, or no message holds a score."""
    if classes < 2:
        raise InvalidMessage(f"Labels with {classes} class: at least two are needed to learn anything.")
    if classes > CLASSES:
        raise InvalidMessage(
            f"Labels with {classes} classes: at most {CLASSES} can be learned. Check the label column."
        )


def check_passive_parties(names: Sequence[str]) -> None:
    """Raise InvalidMessage for names that no session's passive parties have."""
    check_count(names, PASSIVE_PARTIES, "passive parties in a session")
    if not names or len(set(names)) != len(names):
        raise InvalidMessage("A session needs at least one passive party, each named once.")
    for name in names:
        check_name(name)
    if any(role_of(name) is not Role.PASSIVE for name in names):
        raise InvalidMessage("A passive party can't bear another role's name.")
