"""A party whose state was put back from an older copy goes on with nothing, and says what its owner can do."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.common.agreement import Agreement, PartyDescription
from services.common.errors import FederationError, OutOfOrder, PeerVanished
from services.common.identity import Identity
from services.common.ledger_marks import LedgerMark
from services.common.state_folder import StateInMemory
from services.coordinator.sessions import Sessions
from services.exchange.opening_ledger import LEDGER, OpeningLedger, begin_ledger, opened_in
from services.party.equation_count import EQUATIONS, EquationCount, spent_in
from services.party.lasting_batches import begin_batches
from tests.harness.parties import house, small_settings
from tests.harness.restarts import Town, town

# No validation: a session is counted once, when its training ends.
ONCE: dict[str, Any] = {"validation_fraction": 0.0}
OLDER = r"{} of {}'s state is of an older copy: it has \d+ writes?, and the coordinator knows of \d+ writes"


def older(file: str, name: str = "passive") -> str:
    return OLDER.format(file.replace(".", r"\."), name)


def most_counted(home: Town) -> int:
    return max((one.most for one in spent_in(home.states["passive"].read(EQUATIONS) or b"")), default=0)


def of_batches(home: Town) -> set[str]:
    """Ids of what parties remember of batches, which is anchored besides."""
    return {begin_batches(state).ledger for name, state in home.states.items() if name != "coordinator"}


def knowns(home: Town) -> list[tuple[str, int]]:
    """Whose counts the coordinator knows, and how far they are."""
    rows = home.sessions._kept._database.execute("SELECT party, generation, ledger FROM ledgers ORDER BY party")
    return [(party, generation) for party, generation, ledger in rows if ledger not in of_batches(home)]


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Who has joined a session, as it happens."""
    names: list[str] = []
    honest = Sessions.join

    def join(self: Sessions, caller: Identity, session_id: str, party: PartyDescription) -> Agreement:
        names.append(caller.name)
        return honest(self, caller, session_id, party)

    monkeypatch.setattr(Sessions, "join", join)
    return names


@pytest.mark.parametrize("before", ["the first session", "the last one"])
def test_a_copy_from_before_a_session_answers_nothing_until_the_newest_is_put_back(
    tmp_path: Path, joined: list[str], before: str
) -> None:
    with town(tmp_path / "town", **ONCE) as home:
        if before == "the last one":
            home.train()
        counted = most_counted(home)
        copy = home.copied("passive", tmp_path / "older")
        session_id = home.train()
        scores = home.scores()
        newest = home.copied("passive", tmp_path / "newest")
        home.put_back("passive", copy)
        joined.clear()
        with pytest.raises(OutOfOrder, match=older(EQUATIONS)) as refused:
            home.train()
        assert str(refused.value).endswith(
            "Put the newest copy of its state folder back (PLUMBLINE_STATE_DIR). Where that is lost, its owner may "
            "delete forms.npz, which forgets what every peer was answered."
        )
        # A start later too; nothing was counted, and it joined nothing.
        home.restart("passive", "active")
        with pytest.raises(OutOfOrder, match=older(EQUATIONS)):
            home.train()
        assert "passive" not in joined
        assert most_counted(home) == counted
        assert home.states["passive"].read(EQUATIONS) == (copy / EQUATIONS).read_bytes()
        home.put_back("passive", newest)
        assert home.passive().holds_model(session_id)
        np.testing.assert_array_equal(home.scores(), scores)
        home.train()
        assert most_counted(home) == counted + 2


def test_an_older_count_alone_stops_the_served_model_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with town(tmp_path, **ONCE) as home:
        older_count = home.states["passive"].path / EQUATIONS
        content = older_count.read_bytes()
        home.train()
        newest = older_count.read_bytes()
        home.kill("passive")
        older_count.write_bytes(content)
        home.start("passive")
        shares: list[object] = []
        monkeypatch.setattr(Sessions, "submit", lambda *arguments: shares.append(arguments))
        with pytest.raises(OutOfOrder, match=older(EQUATIONS)):
            home.scores()
        assert shares == []
        assert older_count.read_bytes() == content
        monkeypatch.undo()
        home.kill("passive")
        older_count.write_bytes(newest)
        home.start("passive")
        assert len(home.scores())


@pytest.mark.parametrize("name", ["passive", "active"])
@pytest.mark.parametrize("serving", ["opened", "shared"])
def test_an_older_ledger_of_openings_opens_nothing(tmp_path: Path, joined: list[str], name: str, serving: str) -> None:
    """On shared weights; what is validated there is counted in it too, whatever becomes of the weights."""
    terms: dict[str, Any] = {
        "protocol": "shared",
        "serving": serving,
        "opening": "always",
        "patience": 2,
        "guard": "off",
    }
    with town(tmp_path / "town", cipher="paillier", **terms) as home:
        file = home.states[name].path / LEDGER
        content = file.read_bytes()
        home.train()
        newest = file.read_bytes()
        assert opened_in(newest)
        assert opened_in(content) == {}
        home.kill(name)
        file.write_bytes(content)
        home.start(name)
        joined.clear()
        with pytest.raises(FederationError, match=older(LEDGER, name) + ".*which forgets what others were opened"):
            home.train()
        assert name not in joined
        assert file.read_bytes() == content
        home.kill(name)
        file.write_bytes(newest)
        home.start(name)
        home.train()
        assert max(opened_in(file.read_bytes()).values()) == 2 * max(opened_in(newest).values())


def test_a_ledger_that_is_older_at_an_opening_isnt_written_on() -> None:
    """Written on, it would be as far as the one that was lost."""
    state, known = StateInMemory(), LedgerMark.drawn()

    def note(mark: LedgerMark) -> None:
        nonlocal known
        if mark.is_behind(known):
            raise OutOfOrder("older")
        known = mark

    known = begin_ledger(state)
    ledger = OpeningLedger(state, np.arange(3, dtype=np.uint64), note=note)
    content = state.read(LEDGER)
    assert content is not None
    ledger.count("a", {"passive": 24})
    assert known.generation == 2
    state.write(LEDGER, content)
    for _ in range(2):
        with pytest.raises(OutOfOrder, match="older"):
            ledger.count("b", {"passive": 24})
    assert state.read(LEDGER) == content


def test_a_deleted_count_begins_anew_as_its_owner_chose(tmp_path: Path) -> None:
    with town(tmp_path, **ONCE) as home:
        home.train()
        home.kill("passive")
        (tmp_path / "state" / "passive" / EQUATIONS).unlink()
        home.start("passive")
        home.train()
        assert most_counted(home) == 1
        assert len(knowns(home)) == 2


@pytest.mark.parametrize("cut", ["before the coordinator is told", "after it has noted"])
def test_a_count_is_on_disk_then_noted_then_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: str) -> None:
    """Whatever is cut off in between, an honest party is never behind, and answers when all is noted."""
    with town(tmp_path, **ONCE) as home:
        honest = Sessions.note_ledger
        noted: list[int] = []

        def cut_off(self: Sessions, caller: Any, session_id: str, mark: LedgerMark) -> LedgerMark:
            # The first write is the empty count's, and the second the model's.
            if mark.generation < 2 or mark.ledger in of_batches(home):
                return honest(self, caller, session_id, mark)
            assert most_counted(home) == 1
            if cut == "after it has noted":
                honest(self, caller, session_id, mark)
            noted.append(mark.generation)
            raise PeerVanished("coordinator does not answer: the call was cut off.")

        with monkeypatch.context() as patch:
            patch.setattr(Sessions, "note_ledger", cut_off)
            with pytest.raises(PeerVanished, match="cut off"):
                home.train()
        assert noted == [2]
        assert home.passive()._models.candidate is None
        assert knowns(home) == [("passive", 2 if cut == "after it has noted" else 1)]
        home.restart("passive")
        home.train()
        assert ("passive", 3) in knowns(home)
        assert most_counted(home) == 2


class FailsOnce:
    """A coordinator that isn't there when it is told of the second write for the first time."""

    def __init__(self) -> None:
        self.heard: list[int] = []

    def note(self, mark: LedgerMark) -> None:
        self.heard.append(mark.generation)
        if self.heard.count(2) == 1 and mark.generation == 2:
            raise PeerVanished("coordinator does not answer.")


def test_what_was_counted_and_not_noted_is_noted_before_it_is_told_after_all(tmp_path: Path) -> None:
    """Else a copy from before the count could tell it once more."""
    with town(tmp_path, **ONCE) as home:
        home.train()
        served = home.passive()._models.served
        assert served is not None
        data, coordinator = home.data["passive"], FailsOnce()
        forms = EquationCount("passive", data, StateInMemory(), 1.0, note=lambda _, mark: coordinator.note(mark))
        aligned = data.aligned(served.order, served.model.agreement.plan)
        with pytest.raises(PeerVanished):
            forms.count(served.model, aligned, np.arange(3))
        forms.count(served.model, aligned, np.arange(3))
        assert coordinator.heard == [1, 2, 2]
    coordinator = FailsOnce()
    ledger = OpeningLedger(StateInMemory(), np.arange(3, dtype=np.uint64), note=coordinator.note)
    with pytest.raises(PeerVanished):
        ledger.count("a", {"passive": 24})
    ledger.count("a", {"passive": 24})
    assert coordinator.heard == [1, 2, 2]
    assert ledger.before("passive") == 24


def test_a_coordinator_that_has_lost_its_folder_takes_what_it_is_told(tmp_path: Path) -> None:
    """Which is what remains: it knows of no newer one."""
    with town(tmp_path / "town", **ONCE) as home:
        copy = home.copied("passive", tmp_path / "older")
        home.train()
        home.kill("coordinator")
        shutil.rmtree(tmp_path / "town" / "state" / "coordinator")
        home.start("coordinator")
        home.put_back("passive", copy)
        home.train()
        assert most_counted(home) == 1
        # From here on it knows again.
        home.put_back("passive", copy)
        with pytest.raises(OutOfOrder, match=older(EQUATIONS)):
            home.train()


def test_a_party_without_a_folder_is_not_noted(tmp_path: Path) -> None:
    with house(tmp_path, settings=small_settings(cipher="plain")) as home:
        home.train()
        assert home.sessions._kept._database.execute("SELECT count(*) FROM ledgers").fetchone() == (0,)


def test_the_coordinator_hears_of_writes_in_their_order(tmp_path: Path) -> None:
    """Of two models that are counted at once, the one that is written first must not be noted last, and refused."""
    with town(tmp_path, **ONCE) as home:
        forms = home.passive()._equations
        honest, held = forms._note, []

        def note(session_id: str, mark: LedgerMark) -> None:
            held.append(forms._lock.locked())
            honest(session_id, mark)

        forms._note = note
        home.train()
        assert held == [True, True, True]
        # Who measures meanwhile doesn't wait.
        with forms._lock:
            assert list(forms.measures())
