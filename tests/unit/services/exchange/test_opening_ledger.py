"""What sessions open adds up, by record and by who is opened it."""

import io
import json
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

from plumbline.cli import app
from services.common.errors import FederationError, OutOfOrder
from services.common.identity import Identity, Role
from services.common.ledger_marks import LedgerMark
from services.common.state_folder import StateFolder, StateInMemory, StateNotKept
from services.exchange.opening_ledger import LEDGER, OpeningLedger, opened_in
from services.exchange.vectors import WireVector
from services.in_process.direct_peers import DirectPeer
from services.protocols.shared.opening import kept_words
from services.protocols.shared.share_messages import Kind
from tests.harness.parties import House, active_data, house, party_data, small_settings


def keys(*records: int) -> NDArray[np.uint64]:
    return np.array(records, dtype=np.uint64)


def test_bits_add_up_over_sessions_of_the_same_records() -> None:
    state = StateInMemory()
    first = OpeningLedger(state, keys(3, 1, 2))
    assert first.before("passive") == 0
    first.count("a", {"passive": 72, "other": 48})
    # The same session again is the same word again.
    first.count("a", {"passive": 72, "other": 48})
    assert (first.before("passive"), first.before("other"), first.before("third")) == (72, 48, 0)
    OpeningLedger(state, keys(2, 9)).count("b", {"passive": 72})
    assert first.before("passive") == 144
    assert OpeningLedger(state, keys(9)).before("passive") == 72
    assert OpeningLedger(state, keys(8)).before("passive") == 0
    assert OpeningLedger(state, keys(1, 3)).before("passive") == 72
    content = state.read(LEDGER)
    assert content is not None
    assert opened_in(content) == {"passive": 144, "other": 48}


def test_how_far_the_ledger_is_is_noted_before_and_after_each_count() -> None:
    notes = list[LedgerMark]()
    ledger = OpeningLedger(StateInMemory(), keys(3, 1), note=notes.append)
    for occasion in ("a", "b"):
        ledger.count(occasion, {"passive": 72})
    first, second, third, fourth = notes
    assert (second, third, fourth) == (first.next(), first.next(), first.next().next())


def test_an_owner_who_was_opened_no_bit_is_in_the_ledger_with_none() -> None:
    for records in (keys(3, 1), keys()):
        state = StateInMemory()
        OpeningLedger(state, records).count("a", {"passive": 0})
        content = state.read(LEDGER)
        assert content is not None
        assert opened_in(content) == {"passive": 0}
        assert OpeningLedger(state, keys(3)).before("passive") == 0


@pytest.mark.parametrize(
    "content", [b"{", b"\xff", b"[]", b"{}", b'{"session": "s", "words": {}}', b'{"session": "s", "words": {"a": [1]}}']
)
def test_a_broken_word_of_an_opening_is_told_in_a_sentence_and_nothing_is_opened(content: bytes) -> None:
    state, word = StateInMemory(), np.array([[1], [2]], dtype=object)
    assert kept_words(state, "s", {"a": word})["a"].tolist() == [[1], [2]]
    assert kept_words(state, "s", {"a": 7 * word})["a"].tolist() == [[1], [2]]
    state.write("opening.json", content)
    with pytest.raises(OutOfOrder, match=r"opening\.json of this party's state is broken: put the folder back"):
        kept_words(state, "s", {"a": word})
    assert state.read("opening.json") == content


def test_what_cannot_be_counted_is_not_opened() -> None:
    class Full(StateInMemory):
        def write(self, name: str, content: bytes) -> None:
            raise StateNotKept("no room")

    with pytest.raises(StateNotKept):
        OpeningLedger(Full(), keys(1)).count("a", {"passive": 1})
    broken = StateInMemory()
    broken.write(LEDGER, b"nothing")
    for refused in (
        lambda: OpeningLedger(broken, keys(1)).before("passive"),
        lambda: OpeningLedger(broken, keys(1)).count("a", {"passive": 1}),
    ):
        with pytest.raises(OutOfOrder, match=r"openings\.npz of this party's state is broken"):
            refused()


def test_a_damaged_ledger_is_refused_or_has_its_numbers() -> None:
    state, generator = StateInMemory(), np.random.default_rng(3)
    OpeningLedger(state, keys(1, 2, 3)).count("a", {"passive": 72, "other": 5})
    whole = state.read(LEDGER)
    assert whole is not None
    found = []
    for _ in range(1500):
        content = bytearray(whole)
        content[generator.integers(len(whole))] = generator.integers(256)
        state.write(LEDGER, bytes(content))
        with suppress(OutOfOrder):
            found.append(OpeningLedger(state, keys(2)).before("passive"))
    assert set(found) == {72}


@pytest.mark.parametrize(
    ("records", "bits"),
    [
        (keys(1, 2), np.array([7])),
        (keys(2, 1), np.array([7, 8])),
        (keys(1, 1), np.array([7, 8])),
        (keys(1, 2), np.array([-7, -8])),
        (keys(1, 2), np.array([7.0, np.nan])),
        (keys(1, 2)[None], np.array([[7, 8]])),
    ],
)
def test_accounts_that_were_never_written_so_are_refused(records: Any, bits: Any) -> None:
    state = StateInMemory()
    header = np.frombuffer(json.dumps({"version": 1, "session": "a", "owners": ["passive"]}).encode(), dtype=np.uint8)
    file = io.BytesIO()
    np.savez(file, **{"header": header, "0_records": records, "0_bits": bits})
    state.write(LEDGER, file.getvalue())
    with pytest.raises(OutOfOrder, match=r"openings\.npz of this party's state is broken"):
        OpeningLedger(state, keys(1)).before("passive")


@pytest.mark.parametrize("guard", ["off", "warn"])
def test_a_retraining_is_not_opened_where_the_first_was(tmp_path: Path, guard: str) -> None:
    """One column opens 24 bits of 588 that 588 records have: within 5 %, and twice that isn't, whatever the guard."""
    with _one_column(tmp_path, guard=guard) as one:
        one.train()
        with pytest.raises(FederationError, match=r"of this session and earlier ones.*up to 48 bits of the 588 "):
            one.train()


def test_a_session_that_is_broken_off_at_its_opening_counts_and_its_owner_is_told_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer that breaks off each buys no silence: who it was, that the count stands, and every way on is said."""
    with _one_column(tmp_path, guard="warn") as one:
        honest = DirectPeer.send

        def breaks_off(self: DirectPeer, session_id: str, kind: str, step: int, vector: WireVector) -> None:
            if kind == Kind.OPENED and self._sender == "active":
                raise OutOfOrder("passive breaks off.")
            honest(self, session_id, kind, step, vector)

        with monkeypatch.context() as patch:
            patch.setattr(DirectPeer, "send", breaks_off)
            with pytest.raises(FederationError, match="breaks off"):
                one.train()
        with pytest.raises(FederationError) as refused:
            one.train()
    words = str(refused.value)
    assert "24 of them were counted before: an opening counts, whatever became of its session." in words
    assert "active's owner may set PLUMBLINE_SERVING=shared" in words
    assert "train with other records" in words
    assert "join no session with passive if it broke those off" in words
    assert "PLUMBLINE_OPENING=always" in words
    # Another party's words are cut beyond that.
    assert len(words) <= 500


def test_an_owner_lets_a_retraining_be_opened_and_is_warned(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with _one_column(tmp_path, guard="warn", opening="always") as one:
        one.train()
        assert "earlier ones" not in caplog.text
        one.train()
        assert "of this session and earlier ones, if it encrypts other columns than its own: up to 48" in caplog.text


def _one_column(folder: Path, **own: Any) -> AbstractContextManager[House]:
    """A passive party that lets its records be told has one column, and the label party 588 even labels."""
    rows = range(840)
    terms: dict[str, Any] = {"protocol": "shared", "epochs": 1, "batch_size": 588, "most_equations": 1.0}
    return house(
        folder,
        active=active_data(rows=rows),
        passive=[party_data(rows=rows, columns=1)],
        settings=small_settings(**terms, calibrated=False, **own),
        passive_settings=small_settings(**terms, calibrated=False, opening="always", guard="off"),
    )


def test_the_owner_is_shown_what_was_opened(tmp_path: Path) -> None:
    state = StateFolder(tmp_path / "state", Identity(Role.ACTIVE, "active"))
    OpeningLedger(state, keys(1)).count("a", {"passive": 1080})
    state.close()
    shown = CliRunner().invoke(app, ["state", "show", "--dir", str(tmp_path / "state")])
    assert "by validations on shares, what could carry 1,080 bits about a record's" in " ".join(shown.output.split())
