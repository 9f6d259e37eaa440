"""What a passive party answers in all sessions together: counted, kept, and bounded by its owner."""

import io
import json
import logging
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

from plumbline.cli import app
from services.active.interfaces import EpochOutcome
from services.common.errors import Diverged, OutOfOrder
from services.common.state_folder import StateError, StateFolder, StateInMemory, StateNotKept
from services.party.equation_count import EQUATIONS, EquationCount, spent_in
from services.party.resumption import Resumption
from tests.harness.parties import ACTIVE, PASSIVE, Watcher, active_data, data_of, house, party_data, small_settings
from tests.harness.processes import weights_of
from tests.harness.restarts import Town, town
from vfl.arrays import write_arrays
from vfl.learning import LinearPart
from vfl.learning.networks import DenseNetwork

# Of 3 columns: one equation may be answered.
LIMITED: dict[str, Any] = {"most_equations": 0.5, "validation_fraction": 0.0}
EIGHT = 8


def spent(home: Town) -> int:
    content = home.states["passive"].read(EQUATIONS)
    return 0 if content is None else max((one.most for one in spent_in(content)), default=0)


def test_sessions_add_up_to_the_owners_limit_and_the_first_is_never_refused(tmp_path: Path) -> None:
    with town(tmp_path, **LIMITED) as home:
        before = home.train()
        scores = home.scores()
        assert spent(home) == 1
        with pytest.raises(
            OutOfOrder, match="is answered with 2 independent sums of the columns of a record"
        ) as refused:
            home.train()
        assert "1 of 3, which is as many as passive's owner allows (PLUMBLINE_MOST_EQUATIONS=0.5)" in str(refused.value)
        # The model of before answers on.
        assert home.scores().tolist() == scores.tolist()
        assert home.passive().holds_model(before)


@pytest.mark.parametrize("guard", ["warn", "refuse"])
def test_many_classes_pass_the_limit_at_once_and_are_told_or_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, guard: str
) -> None:
    """Three classes tell two sums of three columns."""
    table = active_data(labels=[("no", "yes", "maybe")[row % 3] for row in range(60)])
    # A guard that refuses joins nothing in the clear.
    cipher = "paillier" if guard == "refuse" else "plain"
    with town(tmp_path, active=table, guard=guard, cipher=cipher, **LIMITED) as home:
        if guard == "refuse":
            with pytest.raises(OutOfOrder, match="No more than 1 of 3"):
                home.train()
            return
        home.train()
        assert "That is more than 1 of 3" in caplog.text
        assert "a first session is answered all the same" in caplog.text
        assert spent(home) == 2


def test_a_restart_forgets_nothing(tmp_path: Path) -> None:
    with town(tmp_path, **LIMITED) as home:
        home.train()
        home.restart(*home.names)
        with pytest.raises(OutOfOrder, match="PLUMBLINE_MOST_EQUATIONS"):
            home.train()


def test_records_that_were_never_answered_about_are_free(tmp_path: Path) -> None:
    """By record and not by session: an active party with other customers may train."""
    with town(tmp_path, active=active_data(rows=range(30)), **LIMITED) as home:
        home.train()
        home.data["active"] = active_data(rows=range(30, 60))
        home.restart("active")
        home.train()
        home.data["active"] = active_data(rows=range(20, 60))
        home.restart("active")
        with pytest.raises(OutOfOrder, match="PLUMBLINE_MOST_EQUATIONS"):
            home.train()


def test_another_order_and_further_rows_make_no_other_record(tmp_path: Path) -> None:
    with town(tmp_path, **LIMITED) as home:
        home.train()
        home.data["passive"] = party_data(rows=range(90), seed=1)
        home.restart("passive")
        with pytest.raises(OutOfOrder, match="PLUMBLINE_MOST_EQUATIONS"):
            home.train()


def test_a_share_of_one_counts_and_refuses_nothing(tmp_path: Path) -> None:
    with town(tmp_path, most_equations=1.0, epochs=4) as home:
        for _ in range(3):
            home.train()
        assert spent(home) == 3


@pytest.mark.parametrize("patience", [0, 3])
def test_validation_is_scored_within_the_limit(tmp_path: Path, patience: int) -> None:
    """Each validated epoch is one more answer about the same records; half of what is left is kept."""
    wide = [party_data(rows=range(59, 4, -1), columns=EIGHT)]
    settings = small_settings(cipher="plain", private_seed=None, epochs=12, most_equations=0.5, patience=patience)
    with house(tmp_path, settings=settings, passive=wide) as home:
        seen = Watcher()
        home.active.train(settings.plan(), seen)
        validated = [one.epoch for one in seen.epochs if not np.isnan(one.validation_loss)]
        assert validated == [5, 11]
        account = home.passive["passive"]._equations._accounts["active"]
        assert account.spent.most == 2
        # Three are left of the four: one validation more, and then one equation of each model.
        home.active.train(settings.plan(), seen := Watcher())
        assert [one.epoch for one in seen.epochs if not np.isnan(one.validation_loss)] == [11]


def test_no_other_epoch_is_validated_whoever_asks(tmp_path: Path) -> None:
    settings = small_settings(cipher="plain", epochs=4, most_equations=0.5)
    with house(tmp_path, settings=settings) as home:

        class Asks(Watcher):
            def epoch(self, outcome: object) -> None:
                party, training = home.passive["passive"], home.active._job.session.training  # type: ignore[union-attr]
                rows, session = training.rows.validation.tolist(), training.agreement.session_id
                with pytest.raises(OutOfOrder, match="scored in 1 of 4 epochs, and not in this one"):
                    party.contribute_scores(ACTIVE, session, 99, rows)
                raise OutOfOrder("enough")

        with pytest.raises(OutOfOrder, match="enough"):
            home.active.train(settings.plan(), Asks())


def test_start_weights_answer_about_nothing(tmp_path: Path) -> None:
    """They would be one more sum of the validation records in each session, which may end there."""
    settings = small_settings(cipher="plain", epochs=4, most_equations=0.5, validation_fraction=0.5)
    with house(tmp_path, settings=settings) as home:

        class Asks(Watcher):
            def stage(self, name: str) -> None:
                super().stage(name)
                if name != "training":
                    return
                training = home.active._job.session.training  # type: ignore[union-attr]
                rows, session = training.rows.validation.tolist(), training.agreement.session_id
                with pytest.raises(OutOfOrder, match="and not in this one"):
                    home.passive["passive"].contribute_scores(ACTIVE, session, 99, rows)
                raise OutOfOrder("enough")

        with pytest.raises(OutOfOrder, match="enough"):
            home.active.train(settings.plan(), Asks())
        assert home.passive["passive"]._equations._accounts == {}


def test_no_other_epoch_is_kept_than_one_that_was_validated(tmp_path: Path) -> None:
    """The model of another one would be one more sum of the validation records than the limit has."""
    settings = small_settings(cipher="plain", epochs=4, most_equations=0.5)
    with house(tmp_path, settings=settings) as home:

        class Keeps(Watcher):
            def epoch(self, outcome: EpochOutcome) -> None:
                super().epoch(outcome)
                if outcome.epoch < 3:
                    return
                training = home.active._job.session.training  # type: ignore[union-attr]
                party, session = home.passive["passive"], training.agreement.session_id
                for epoch in range(3):
                    with pytest.raises(OutOfOrder, match="none of those whose model may be kept"):
                        party.finish_training(ACTIVE, session, epoch)

        home.active.train(settings.plan(), Keeps())
        assert home.passive["passive"]._equations._accounts["active"].spent.most == 1


def test_a_model_that_couldnt_be_counted_answers_about_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its validation records were counted, and no others."""
    with town(tmp_path, most_equations=0.5) as home:
        write = StateFolder.write
        asked: list[str] = []

        def full(self: StateFolder, name: str, content: bytes) -> None:
            session = home.passive()._session
            training = session.joined.training if session is not None and session.joined is not None else None
            if name == EQUATIONS and training is not None and training.is_over:
                asked.append(training.agreement.session_id)
                raise StateNotKept("passive can't write its state (No space left on device)")
            write(self, name, content)

        monkeypatch.setattr(StateFolder, "write", full)

        class Asks(Watcher):
            def epoch(self, outcome: EpochOutcome) -> None:
                if outcome.epoch < 1:
                    return
                party, training = home.passive(), home.active._job.session.training  # type: ignore[union-attr]
                session = training.agreement.session_id
                with pytest.raises(OutOfOrder, match="No space left"):
                    party.finish_training(ACTIVE, session, 1)
                with pytest.raises(OutOfOrder, match="finish the training first"):
                    party.contribute_scores(ACTIVE, session, 99, training.rows.train.tolist())
                raise OutOfOrder("enough")

        with pytest.raises(OutOfOrder, match="enough"):
            home.active.train(home.settings.plan(), Asks())
        assert asked


def test_two_models_of_the_same_epoch_count_as_two(tmp_path: Path) -> None:
    """An epoch's last step that is taken back, and passed over, leaves other weights after as many epochs."""
    with town(tmp_path, most_equations=1.0, epochs=2, resume_within=3600) as home:

        class TakesBack(Watcher):
            def epoch(self, outcome: EpochOutcome) -> None:
                party, training = home.passive(), home.active._job.session.training  # type: ignore[union-attr]
                session, rows = training.agreement.session_id, training.rows.validation.tolist()
                assert spent(home) == 1
                last = party.stop_training(ACTIVE, session).completed - 1
                for resume in (
                    partial(party.resume_training, ACTIVE, session),
                    partial(training.resume, by="passive"),
                ):
                    # Whose weights behind the step are given up passes over the next one as well.
                    resume(Resumption(last, frozenset({last, last + 1})))
                training.side.show_public_key()
                party.show_public_key(ACTIVE, session)
                own = home.executor.submit(training.run_epoch, 0, lambda *_: None)
                party.run_epoch(ACTIVE, session, 0, lambda *_: None)
                own.result()
                party.contribute_scores(ACTIVE, session, 99, rows)
                raise OutOfOrder("enough")

        with pytest.raises(OutOfOrder, match="enough"):
            home.active.train(home.settings.plan(), TakesBack())
        assert spent(home) == 2


def test_an_answer_that_cant_be_counted_isnt_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with town(tmp_path, epochs=3) as home:
        write = StateFolder.write

        def full(self: StateFolder, name: str, content: bytes) -> None:
            if name == EQUATIONS:
                raise StateNotKept("passive can't write its state (No space left on device)")
            write(self, name, content)

        with monkeypatch.context() as patch:
            patch.setattr(StateFolder, "write", full)
            with pytest.raises(OutOfOrder, match="No space left"):
                home.train()
            assert not home.sessions._sessions or spent(home) == 0
        home.train()
        assert spent(home) == 3


def test_what_is_counted_after_another_session_was_let_in_is_bounded_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that were joined before either answered: the first look at the limit has seen neither."""
    with town(tmp_path, **LIMITED) as home:
        home.train()
        with monkeypatch.context() as patch:
            patch.setattr(EquationCount, "room_for", lambda *_: 1)
            with pytest.raises(OutOfOrder, match="would be sum 2 of the columns of a record"):
                home.train()
        assert spent(home) == 1


def test_weights_beyond_numbers_arent_answered_with(tmp_path: Path) -> None:
    """They would count as nothing, or hide what others tell, and their scores are numbers where the units are small."""
    with town(tmp_path, **LIMITED) as home:
        session = home.train()
        kept = home.passive()._models.of_session(session)
        assert kept is not None
        aligned = home.data["passive"].aligned(kept.order, kept.model.agreement.plan)
        model = replace(kept.model, part=LinearPart(np.full((3, 1), np.inf)))
        with pytest.raises(Diverged, match="beyond numbers"):
            home.passive()._equations.count(model, aligned, np.arange(5))


def test_a_broken_count_stops_the_party(tmp_path: Path) -> None:
    """It is not an empty one: who can break it could ask without end."""
    with town(tmp_path, **LIMITED) as home:
        home.train()
        for content in (b"", b"no zip", home.states["passive"].read(EQUATIONS)[:-30]):  # type: ignore[index]
            home.states["passive"].write(EQUATIONS, content)
            home.kill("passive")
            with pytest.raises(StateError, match=r"forms\.npz of this party's state is broken"):
                home.start("passive")
            home.kill("passive")
            home.states["passive"] = StateFolder(tmp_path / "state" / "passive", PASSIVE)


def test_a_model_from_before_the_count_is_counted_before_it_answers(tmp_path: Path) -> None:
    with town(tmp_path, **LIMITED) as home:
        home.train()
        home.states["passive"].remove(EQUATIONS)
        home.restart("passive")
        assert spent(home) == 0
        home.scores(["id-10"])
        assert spent(home) == 1


def test_the_passive_party_starts_where_it_did_and_the_active_party_elsewhere(tmp_path: Path) -> None:
    """Equal starts of the active party would let equations of its labels add up."""
    with town(tmp_path, learning_rate=1e-9) as home:
        found = []
        for _ in range(2):
            home.train()
            found.append(weights_of(tmp_path, ["active", "passive"]))
            home.restart("passive")
        (active, passive), (active_again, passive_again) = found
        assert np.allclose(passive, passive_again, atol=1e-6)
        assert np.abs(active - active_again).max() > 1e-3


@pytest.mark.parametrize("rate", [1e-6, 1e-3])
def test_a_plan_whose_weights_hardly_move_is_refused_in_words(tmp_path: Path, rate: float) -> None:
    with (
        town(tmp_path, most_equations=0.9, learning_rate=rate) as home,
        pytest.raises(OutOfOrder, match="leaves the weights almost where they start"),
    ):
        home.train()


def test_an_installed_network_counts_a_equation_for_each_class_but_one(tmp_path: Path) -> None:
    with town(tmp_path, validation_fraction=0.0) as home:
        session = home.train()
        party = home.passive()
        kept = party._models.of_session(session)
        assert kept is not None
        generator = np.random.default_rng(0)
        network = DenseNetwork(
            (generator.normal(size=(3, 4)), generator.normal(size=(4, 3))), (np.zeros(4), np.zeros(3)), "relu"
        )
        terms = replace(kept.model.agreement, classes=3)
        model = type(kept.model)(terms, "passive", kept.model.features, network, 0, b"k" * 32)
        aligned = home.data["passive"].aligned(kept.order, kept.model.agreement.plan)
        for _ in range(2):
            party._equations.count(model, aligned, np.arange(5))
            assert spent(home) == 3


def test_who_starts_without_a_state_folder_says_what_that_forgets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.WARNING),
        house(tmp_path, settings=small_settings(cipher="plain", most_equations=0.5)),
    ):
        assert "counted since this start only: set PLUMBLINE_STATE_DIR" in caplog.text


def test_the_owner_sees_what_was_spent_and_for_which_record_most(tmp_path: Path) -> None:
    with town(tmp_path, **LIMITED) as home:
        home.train()
    folder = ["--dir", str(tmp_path / "state" / "passive")]
    shown = " ".join(CliRunner().invoke(app, ["state", "show", *folder]).output.split())
    assert "active was answered about 55 records, most about row 1: 1 of the 3 independent sums" in shown
    facts = json.loads(CliRunner().invoke(app, ["state", "show", "--json", *folder]).output)
    assert facts["answered"] == [{"active": "active", "records": 55, "most": 1, "row": 0, "features": 3}]
    CliRunner().invoke(app, ["state", "clear", "--yes", *folder])
    assert (tmp_path / "state" / "passive" / EQUATIONS).exists()


def test_another_range_of_the_training_records_makes_another_equation(tmp_path: Path) -> None:
    """Values are cut to it: the same weights told of record 0, session by session, on which side of it they lie."""
    values = np.array([[5, 7], [0, 0], [1, 1], [5, 0], [6, 1], [0, 7], [1, 8]], dtype=float)
    data = data_of(np.tile(values, (1, 4)), encoder="minmax")
    with town(tmp_path, most_equations=0.5, validation_fraction=0.0) as home:
        kept = home.passive()._models.of_session(home.train())
        assert kept is not None
        model = replace(kept.model, part=LinearPart(np.ones((8, 1))))
        count = EquationCount("passive", data, StateInMemory(), 0.5)
        answers = []
        for trained in ([1, 2], [3, 4], [5, 6]):
            plan = replace(model.agreement.plan, test_fraction=0.34)
            split = plan.split(3)
            rows = np.zeros(3, dtype=np.int64)
            rows[split.train] = trained
            aligned = data.aligned(rows, plan)
            count.count(model, aligned, split.test)
            answers.append(float(aligned.features[split.test].sum()))
        assert answers == [8.0, 4.0, 4.0]
        assert count._accounts["active"].spent.most == 3
        rounded = replace(model.agreement, plan=replace(plan, feature_fraction_bits=4))
        count.count(replace(model, agreement=rounded), data.aligned(rows, rounded.plan), split.test)
        assert count._accounts["active"].spent.most == 4


def test_a_count_of_version_1_is_read_and_goes_on(tmp_path: Path) -> None:
    """It kept each equation of which nothing is known as a column of its own."""
    network, session = f"network {'7' * 64}", "forwarded 0123"
    names = ["age 0.0 1.0 16", f"{session} 0", f"{session} 1", "network 0.0 1.0 16", f"{network} 0", f"{session} 2"]
    equations = np.eye(6)
    equations[3, 0], equations[0, 3] = 2.0, -3.0
    header = {
        "version": 1,
        "accounts": [
            {
                **{"active": "active", "records": 3, "most": 5, "row": 7, "features": 8},
                "coordinates": names,
                "bases": [[1, 2], [0, 3, 1, 2, 4], [5, 0]],
            }
        ],
    }
    file = io.BytesIO()
    arrays: dict[str, NDArray[Any]] = {
        "header": np.frombuffer(json.dumps(header).encode(), dtype=np.uint8),
        "0_forms": equations,
        "0_records": np.array([4, 5, 6], dtype=np.uint64),
        "0_of_record": np.array([0, 1, 2], dtype=np.uint32),
    }
    write_arrays(file, arrays)
    state = StateInMemory()
    state.write(EQUATIONS, file.getvalue())
    account = EquationCount("passive", party_data(), state, 1.0)._accounts["active"]
    assert (account.spent.most, account.spent.row) == (5, 7)
    count = account.equations
    assert count.coordinates == ("age 0.0 1.0 16", "network 0.0 1.0 16")
    assert count.equations.tolist() == [[1.0, -3.0], [2.0, 1.0]]
    assert count.ranks(count.records).tolist() == [2, 5, 2]
    # What was told before is told again: a network, all of a session, and equations of columns.
    assert count.answered_opaque(count.records[1:2], network, 1, 8) is count
    assert count.answered_opaque(count.records[:1], session, 3, 8).ranks(count.records).tolist() == [3, 5, 2]
    again = count.answered(count.records[1:2], count.coordinates, np.array([[1.0, 1.0]]), 8)
    assert again is count
