"""Batches over sessions of whole parties with state folders: what lasts, who waits, which list is refused."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from plumbline.cli import app
from services.common.agreement import Agreement, PartyDescription
from services.common.errors import FederationError
from services.common.identity import Identity
from services.coordinator.sessions import Sessions
from services.party.lasting_batches import BATCHES, Remembered, _read
from tests.harness.parties import active_data, house, party_data
from tests.harness.restarts import Town, town
from vfl.learning.append_only import Names

PARTIES = ("active", "passive-1", "passive-2")
FIRST = range(300)


def meet(home: Town, ids: Iterable[int], *, labels: dict[int, object] | None = None) -> None:
    """Give every party records of these ids, and start it again."""
    rows, given = list(ids), labels or {}
    home.data["active"] = active_data(rows=rows, labels=[given.get(row, ("no", "yes")[row % 2]) for row in rows])
    for seed, name in enumerate(PARTIES[1:]):
        home.data[name] = party_data(rows=rows[::-1], seed=seed)
    home.restart(*PARTIES)


def remembered(home: Town, name: str = "active") -> Remembered:
    (found,) = _read(home.states[name])[0].values()
    return found


def batches(found: Remembered) -> list[set[int]]:
    return [set(batch.tolist()) for batch in found.history.train]


def listed(found: Remembered) -> list[list[int]]:
    """All that two parties must remember alike, in any order within a batch."""
    history = found.history
    parts: list[Names] = [*history.train, *history.validation, history.test, history.dissolved]
    return [sorted(part.tolist()) for part in parts]


@pytest.fixture
def home(tmp_path: Path) -> Any:
    """Three parties that have trained once, in three batches of 70."""
    with town(tmp_path / "town", parties=3, batch_size=70, epochs=1) as home:
        meet(home, FIRST)
        home.train()
        yield home


def test_a_newcomer_waits_until_there_is_a_batch_of_them(home: Town) -> None:
    before = remembered(home)
    assert [len(batch) for batch in before.history.train] == [70, 70, 70]
    least = before.history.least
    for newcomers in (1, least - 1):
        meet(home, range(300 + newcomers))
        home.train()
        for name in PARTIES:
            found = remembered(home, name)
            assert found.key == before.key
            assert listed(found) == listed(before)
            assert found.waiting == newcomers
    meet(home, range(300 + least))
    home.train()
    joined = remembered(home)
    assert batches(joined)[:3] == batches(before)
    assert [len(batch) for batch in batches(joined)[3:]] == [least]
    assert not joined.waiting
    assert listed(joined) == listed(remembered(home, "passive-1")) == listed(remembered(home, "passive-2"))


def test_a_session_that_nothing_has_changed_for_is_as_it_was_drawn(tmp_path: Path) -> None:
    with town(tmp_path / "town", parties=3, batch_size=70, epochs=1, private_seed=1) as home:
        meet(home, FIRST)
        home.train()
        before, scores = remembered(home), home.scores()
        for epochs, seed, is_drawn in ((1, 1, True), (2, 1, True), (1, 5, False), (1, 1, False)):
            home.train(epochs=epochs, seed=seed)
            assert (home.active._session.agreement.plan.roster is None) is is_drawn  # type: ignore[union-attr]
            assert batches(remembered(home)) == batches(before)
            if epochs == seed == 1 and is_drawn:
                assert (home.scores() == scores).all()


def test_who_waits_is_told_and_can_be_scored(home: Town) -> None:
    meet(home, range(302))
    home.train()
    least = remembered(home).history.least
    agreement = home.active._session.agreement  # type: ignore[union-attr]
    assert agreement.plan.roster is not None
    assert agreement.plan.roster.waiting == 2
    warnings = home.active._session.terms_warnings  # type: ignore[union-attr]
    (told,) = [one for one in warnings if "In no role yet" in one]
    assert told.startswith("In no role yet: 2 records of 302.")
    assert f"once {least} have come that were in no batch before" in told
    shown = CliRunner(env={"COLUMNS": "250"}).invoke(app, ["state", "show", "--dir", str(home.states["active"].path)])
    assert f"2 wait, and newcomers join as a batch of their own once {least}" in " ".join(shown.output.split())
    scores = home.scores(["id-300", "id-301", "id-7"])
    home.restart(*PARTIES)
    assert (home.scores(["id-300", "id-301", "id-7"]) == scores).all()


def test_a_session_that_somebody_refuses_is_not_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Sessions.join

    def join(self: Sessions, caller: Identity, session_id: str, party: PartyDescription) -> Agreement:
        agreement = honest(self, caller, session_id, party)
        return replace(agreement, classes=3) if caller.name == "passive-2" else agreement

    monkeypatch.setattr(Sessions, "join", join)
    with town(tmp_path / "town", parties=3, epochs=1) as home:
        with pytest.raises(FederationError, match="other parties or classes"):
            home.train()
        assert not any(_read(home.states[name])[0] for name in PARTIES)


def test_a_leaver_dissolves_its_group(home: Town) -> None:
    before = remembered(home)
    training = home.active._session.training  # type: ignore[union-attr]
    order = home.active._session.aligned.rows  # type: ignore[union-attr]
    trained = int(order[training.rows.train[0]])
    meet(home, [row for row in FIRST if row != trained])
    home.train()
    after = remembered(home)
    (dissolved,) = [batch for batch in batches(before) if batch not in batches(after)]
    assert len(batches(after)) == 2
    assert set(after.history.dissolved.tolist()) == dissolved
    assert after.waiting == 69
    assert listed(after) == listed(remembered(home, "passive-2"))
    # Back alone, it changes nothing: what comes next needs newcomers of its own.
    meet(home, FIRST)
    home.train()
    assert remembered(home).waiting == 70
    meet(home, range(300 + after.history.least))
    home.train()
    joined = batches(remembered(home))[-1]
    assert len(joined) == 2 * after.history.least - 1
    assert len(joined & dissolved) == after.history.least - 1


def test_without_a_whole_batch_it_says_what_to_do(home: Town) -> None:
    training = home.active._session.training  # type: ignore[union-attr]
    order = home.active._session.aligned.rows  # type: ignore[union-attr]
    leavers = {int(order[batch[0]]) for batch in training.schedule.epoch(0)}
    meet(home, [row for row in FIRST if row not in leavers])
    with pytest.raises(FederationError, match=r"Put the records back that are missing\. Or begin anew: delete batches"):
        home.train()


def test_an_active_party_that_has_forgotten_is_refused(home: Town) -> None:
    meet(home, range(301))
    before = home.states["passive-1"].read(BATCHES)
    home.kill("active")
    (home.folder / "state" / "active" / BATCHES).unlink()
    home.start("active")
    with pytest.raises(FederationError) as refused:
        home.train()
    words = str(refused.value)
    assert "don't go on from the batches that passive-" in words
    assert "Put the newest copy of active's state folder back (PLUMBLINE_STATE_DIR)" in words
    assert f"delete {BATCHES} at every party" in words
    assert home.states["passive-1"].read(BATCHES) == before
    # As the sentence says.
    home.kill(*PARTIES)
    for name in PARTIES:
        (home.folder / "state" / name / BATCHES).unlink(missing_ok=True)
    home.start(*PARTIES)
    home.train()
    assert not remembered(home).waiting


def test_a_passive_party_that_has_forgotten_takes_what_it_is_told(home: Town) -> None:
    meet(home, range(301))
    home.kill("passive-2")
    (home.folder / "state" / "passive-2" / BATCHES).unlink()
    home.start("passive-2")
    home.train()
    assert listed(remembered(home, "passive-2")) == listed(remembered(home))
    assert remembered(home, "passive-2").key == remembered(home).key


@pytest.mark.parametrize("name", ["active", "passive-1"])
def test_an_older_copy_is_refused(home: Town, name: str) -> None:
    file = home.states[name].path / BATCHES
    older = file.read_bytes()
    home.train()
    home.kill(name)
    file.write_bytes(older)
    home.start(name)
    with pytest.raises(FederationError, match=rf"batches.npz of {name}'s state is of an older copy"):
        home.train()


@pytest.mark.parametrize("liar", ["coordinator", "passive-1"])
def test_other_counts_are_refused(home: Town, monkeypatch: pytest.MonkeyPatch, liar: str) -> None:
    meet(home, range(301))
    honest = Sessions.join

    def other(party: PartyDescription) -> PartyDescription:
        assert party.roster is not None
        return replace(party, roster=replace(party.roster, waiting=0, held=party.roster.waiting))

    def join(self: Sessions, caller: Identity, session_id: str, party: PartyDescription) -> Agreement:
        if liar == caller.name:
            party = other(party)
        agreement = honest(self, caller, session_id, party)
        if liar == "coordinator":
            return replace(agreement, parties=tuple(map(other, agreement.parties)))
        return agreement

    monkeypatch.setattr(Sessions, "join", join)
    with pytest.raises(FederationError, match=r"counts other batches of earlier sessions|than it described itself"):
        home.train()


def test_a_list_with_another_member_is_refused_by_each_party(home: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    meet(home, range(301))
    honest = Remembered.order

    def order(self: Remembered, *arguments: Any) -> Any:
        """The newcomer, who stands last, changes places with a training record."""
        places, roster = honest(self, *arguments)
        places[[0, -1]] = places[[-1, 0]]
        return places, roster

    monkeypatch.setattr(Remembered, "order", order)
    before = {name: home.states[name].read(BATCHES) for name in PARTIES}
    with pytest.raises(FederationError, match=r"a batch of 70 records has changed by 2, and batches change by whole"):
        home.train()
    assert {name: home.states[name].read(BATCHES) for name in PARTIES} == before


def test_newcomers_without_a_label_are_held(home: Town) -> None:
    least = remembered(home).history.least
    meet(home, range(300 + least), labels={300: None, 301: None})
    home.train()
    roster = home.active._session.agreement.plan.roster  # type: ignore[union-attr]
    assert roster is not None
    assert (roster.held, roster.waiting) == (2, least - 2)
    assert listed(remembered(home)) == listed(remembered(home, "passive-1"))


@pytest.mark.parametrize(
    "terms",
    [
        {"batches": "reshuffled", "batch_size": 70},
        {"batch_size": 20},
        {"batch_size": 210, "seed": 9},
        {"validation_fraction": 0.3},
    ],
)
def test_other_terms_keep_the_batches(home: Town, terms: dict[str, Any]) -> None:
    before = remembered(home)
    meet(home, range(301))
    home.train(**terms)
    assert listed(remembered(home)) == listed(before)
    training = home.active._session.training  # type: ignore[union-attr]
    steps = {20: 3, 210: 1}.get(terms.get("batch_size", 70), 3)
    assert training.schedule.steps_per_epoch == steps


@pytest.mark.parametrize("learner", ["linear", "network"])
def test_shared_weights_keep_their_batches(tmp_path: Path, learner: str) -> None:
    terms: dict[str, Any] = {"protocol": "shared", "cipher": "paillier", "key_bits": 1024, "batch_size": 25}
    if learner == "network":
        terms |= {"learner": "network", "learner_options": {"hidden": 4, "backward": "shared"}}
    with town(tmp_path / "town", epochs=1, **terms) as home:
        home.train()
        before = remembered(home)
        home.data["active"] = active_data(rows=range(61))
        home.data["passive"] = party_data(rows=range(60, 4, -1))
        home.restart("active", "passive")
        home.train()
        for name in ("active", "passive"):
            assert listed(remembered(home, name)) == listed(before)
        assert remembered(home).waiting == 1


def test_without_a_state_folder_it_says_that_it_remembers_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with house(tmp_path) as home, caplog.at_level("INFO"):
        home.train()
    assert "Batches of earlier sessions aren't remembered: set PLUMBLINE_STATE_DIR" in caplog.text
