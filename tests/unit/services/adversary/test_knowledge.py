"""What the view of a live session's adversary holds: its defences' channels, labels, and what it knows beforehand."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.special import softmax

import attacks
from attacks.prediction.known_moments import known_moments
from defences import load
from services.adversary.knowledge import Knowledge, PriorKnowledge
from services.adversary.predictions import AttackHost
from services.common.agreement import Agreement
from services.common.run_folder import RunFolder
from services.coordinator.kept_sessions import DATABASE
from services.party.features import PartyData
from services.party.model_file import packed, unpacked
from services.party.served_models import SERVED
from services.passive.party import PassiveParty
from tests.harness.parties import active_data, house, party_data, small_settings, values_of
from tests.harness.restarts import IDS, Town, town
from vfl.arrays import FloatArray
from vfl.channels import Distorted, Rounding, ScoreChannel, Temperature, Undeclared
from vfl.data import Table
from vfl.learning.confidence import unit_rows
from vfl.learning.network.part import NetworkPart
from vfl.learning.networks import DenseNetwork

WORDS = ["setosa", "versicolor", "virginica"]
SCORES = [load("score_scheme3", alpha=0.75), load("score_rounding", decimals=3)]
TURN = load("feature_transform", kind="negate")


@dataclass(frozen=True)
class Spy:
    """Keeps the views that it is given."""

    seen: list[attacks.PredictionView] = field(default_factory=list)

    name: ClassVar[str] = "spy"
    spec: ClassVar[attacks.AttackSpec] = attacks.AttackSpec("active", "prediction", (), "a test", reads_channel=True)

    def reconstruct(self, view: attacks.PredictionView) -> FloatArray:
        self.seen.append(view)
        return np.zeros((view.n, view.d))


def three_classes() -> Any:
    return active_data(labels=[WORDS[row % 3] for row in range(60)])


def test_the_view_has_what_all_parties_are_told_also_after_a_restart(tmp_path: Path) -> None:
    spy = Spy()
    with town(
        tmp_path, active=three_classes(), score_defences=SCORES, disclosing=[TURN], disclose=True, attacks={"spy": spy}
    ) as home:
        home.train()
        home.restart(*home.names)
        home.scores()
        home.active._attacks._threads.shutdown(wait=True)
        first, later = spy.seen
        for view in (first, later):
            assert view.channel == (Temperature(0.25), Rounding(3))
            assert view.disclosure == Distorted("negated", sign_is_guess=True)
            assert view.own_shift is None
        model = home.active._serving.newest
        assert model is not None
        np.testing.assert_array_equal(first.record_labels, model.model.labels_of(model.model.rows.test))
        expected = model.model.labels_of(np.array([model.row_of_id[one] for one in IDS]))
        np.testing.assert_array_equal(later.record_labels, expected)


def test_the_view_has_the_tables_own_columns_and_the_parameters_that_scores_follow_from(tmp_path: Path) -> None:
    spy = Spy()
    with town(tmp_path, active=three_classes(), attacks={"spy": spy}, disclose=True) as home:
        home.train()
        served = home.active._serving.newest
        assert served is not None
        own, passive = (_in_common_order(data, served.row_of_id) for data in home.data.values())
    (view,), rows = spy.seen, served.model.rows
    assert view.features_active is not None
    assert view.features_train is not None
    np.testing.assert_allclose(view.features_active, own[rows.test], atol=1e-4)
    np.testing.assert_allclose(view.features_train, own[rows.train], atol=1e-4)
    assert view.weights_active is not None
    assert view.weights_passive is not None
    assert view.bias is not None
    assert view.scores is not None
    sums = own[rows.test] @ view.weights_active.T + passive[rows.test] @ view.weights_passive.T + view.bias
    np.testing.assert_allclose(view.scores, softmax(sums, axis=1), atol=1e-3)
    assert np.unique(view.bias.round(3)).size == len(WORDS)


def test_a_disclosed_network_is_viewed_whole_and_one_that_is_kept_as_the_adversarys_own_part(tmp_path: Path) -> None:
    with town(tmp_path, disclose=True) as home:
        home.train()
        served = home.active._serving.newest
        assert served is not None
    generator = np.random.default_rng(1)
    own, passive = (
        DenseNetwork((generator.normal(size=(inputs, 4)), np.eye(4)[:, :2]), (np.zeros(4), np.zeros(2)))
        for inputs in (2, 3)
    )
    model, rows = replace(served.model, part=own), served.model.rows.test
    scores = np.full((len(rows), 2), 0.5)
    whole = Knowledge(model, (passive,)).view(rows, scores)
    assert whole.network is not None
    assert (whole.network.active, whole.network.passive) == (own, passive)
    kept = Knowledge(model, None).view(rows, scores)
    assert (kept.network, kept.network_active) == (None, own)


def test_sums_of_a_first_layer_are_equations_about_the_passive_columns_and_exact_where_there_are_enough(
    tmp_path: Path,
) -> None:
    """As many units as passive columns: least squares reads every value; with one fewer it doesn't."""
    with town(tmp_path, disclose=True) as home:
        home.train()
        served = home.active._serving.newest
        assert served is not None
    rows, generator = served.model.rows.test, np.random.default_rng(2)
    truth = generator.uniform(size=(len(rows), sum(one.feature_count for one in served.model.agreement.parties[1:])))
    for units, is_exact in ((truth.shape[1], True), (truth.shape[1] - 1, False)):
        plan = served.model.agreement.plan.changed(learner="network", hidden=units)
        own, passive = (
            NetworkPart(5 * generator.normal(size=(inputs, units)))
            for inputs in (served.model.features.shape[1], truth.shape[1])
        )
        model = replace(served.model, part=own, agreement=replace(served.model.agreement, plan=plan))
        sums = own.shares(model.features[rows]) + passive.shares(truth)
        view = Knowledge(model, (passive,)).view(rows, sums)
        assert (view.labels, view.features_train) == (None, None)
        estimate = attacks.load_prediction("ls").reconstruct(view)
        assert np.allclose(estimate, truth, atol=1e-6) == is_exact
        black_box = Knowledge(model, None).view(rows, sums)
        assert black_box.weights_passive is None
        assert black_box.weights_active is not None


def _in_common_order(data: PartyData, row_of_id: Mapping[str, int]) -> FloatArray:
    """A table's own numbers, a row for each of the common order's."""
    own = dict(zip(data.ids, values_of(data), strict=True))
    return np.array([own[one] for one in sorted(row_of_id, key=row_of_id.__getitem__)])


def test_states_of_before_options_were_told_start_and_answer_and_say_that_nothing_is_known(tmp_path: Path) -> None:
    """Both formats: the coordinator's database and the parties' model files, without what is new in an agreement."""
    spy = Spy()
    with town(tmp_path, active=three_classes(), score_defences=SCORES, attacks={"spy": spy}, disclose=True) as home:
        home.train()
        before = home.scores()
        home.kill(*home.names)
        _forget_options(home, tmp_path / "state")
        home.start(*home.names)
        np.testing.assert_array_equal(home.scores(), before)
        home.active._attacks._threads.shutdown(wait=True)
    assert spy.seen[-1].channel == (Undeclared("score_scheme3"), Undeclared("score_rounding"))


def _forget_options(home: Town, state: Path) -> None:
    import sqlite3

    for name, data in home.data.items():
        file = state / name / SERVED
        labels = np.zeros(60, dtype=np.int64)
        kept = unpacked(file.read_bytes(), data, labels if name == "active" else None)
        with np.load(file) as arrays:
            content = dict(arrays)
        header = json.loads(content["header"].tobytes())
        header["agreement"].pop("announced")
        for party in header["agreement"]["parties"]:
            party.pop("disclosure_defences")
        content["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        np.savez(file, **content)
        old = unpacked(file.read_bytes(), data, labels if name == "active" else None)
        assert old.model.agreement == replace(kept.model.agreement, announced=())
        assert packed(old, data) != packed(kept, data)
    with sqlite3.connect(state / "coordinator" / DATABASE) as database:
        ((text,),) = database.execute("SELECT agreement FROM sessions").fetchall()
        agreement = json.loads(text)
        agreement.pop("announced")
        for party in agreement["parties"]:
            party.pop("disclosure_defences")
        database.execute("UPDATE sessions SET agreement = ?", (json.dumps(agreement),))


def test_what_is_known_beforehand_reaches_the_view_and_known_records_are_not_attacked(tmp_path: Path) -> None:
    spy, passive = Spy(), party_data(rows=range(59, 4, -1), seed=1)
    moments = known_moments(values_of(passive))
    known = Table(passive.ids[:12], values_of(passive)[:12], tuple(passive.table.frame.columns))
    with town(tmp_path, attacks={"spy": spy}, beforehand=PriorKnowledge(known, moments), disclose=True) as home:
        home.train()
        model = home.active._serving.newest
        assert model is not None
        test = set(model.model.rows.test.tolist())
        given = {model.row_of_id[one] for one in known.ids if one in model.row_of_id}
        (view,) = spy.seen
        assert view.moments is moments
        assert test & given
        estimates = RunFolder(tmp_path).estimates(0)
        assert set(estimates.rows.tolist()) == test - given
        assert view.auxiliary is not None
        rows = [model.row_of_id[one] for one in known.ids if one in model.row_of_id]
        np.testing.assert_array_equal(view.auxiliary.labels, model.model.labels_of(np.array(rows)))
        np.testing.assert_array_equal(estimates.auxiliary_rows, rows)
        assert set(estimates.by_attack) == {"spy"}
        # Asked for alone they aren't attacked either.
        home.scores(known.ids[:3])
        home.active._attacks._threads.shutdown(wait=True)
    assert len(spy.seen) == 1


def test_moments_of_other_columns_are_refused_by_name(tmp_path: Path) -> None:
    with town(
        tmp_path,
        attacks={"half": attacks.load("half")},
        beforehand=PriorKnowledge(moments=known_moments(np.eye(5))),
        disclose=True,
    ) as home:
        home.train()
    (outcome,) = RunFolder(tmp_path).prediction_outcomes()
    assert outcome.status == "not applicable"
    assert "PLUMBLINE_PRIOR_KNOWLEDGE tells of 5 columns" in str(outcome.reason)


def test_attacks_that_read_no_channel_run_once_more_on_what_knowing_the_defences_leaves(tmp_path: Path) -> None:
    temperature, rounding = SCORES
    mounted = {"half_star": attacks.load("half_star"), "half": attacks.load("half"), "spy": Spy()}
    with town(
        tmp_path / "defended",
        active=three_classes(),
        score_defences=[rounding, temperature],
        disclosing=[TURN],
        attacks=mounted,
        disclose=True,
        private_seed=3,
    ) as home:
        home.train()
    defended = RunFolder(tmp_path / "defended")
    outcomes = {one.attack: one for one in defended.prediction_outcomes()}
    knowing = "half_star(knowing=score_scheme3+feature_transform)"
    assert set(outcomes) == {"half_star", "half", "spy", knowing}
    assert [outcomes[one].sees_scores for one in ("half", knowing)] == [False, True]
    with town(
        tmp_path / "plain",
        active=three_classes(),
        score_defences=[load("score_rounding", decimals=3)],
        attacks=mounted,
        disclose=True,
        private_seed=3,
    ) as home:
        home.train()
    plain, found = RunFolder(tmp_path / "plain").estimates(0), defended.estimates(0)
    assert {one.attack for one in RunFolder(tmp_path / "plain").prediction_outcomes()} == {"half_star", "half", "spy"}
    np.testing.assert_allclose(found.by_attack[knowing], plain.by_attack["half_star"], atol=1e-6)
    assert np.abs(found.by_attack["half_star"] - plain.by_attack["half_star"]).max() > 0.01


@pytest.mark.parametrize("count", [0, 2])
def test_an_idle_host_asks_for_no_channel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """A purifier may have to be trained for it: nothing of that where no attack is mounted."""
    asked: list[str] = []

    def asking(agreement: Agreement) -> tuple[ScoreChannel, ...]:
        asked.append(agreement.session_id)
        return ()

    monkeypatch.setattr("services.adversary.knowledge.score_channels", asking)
    with town(tmp_path, attacks={f"spy {number}": Spy() for number in range(count)}, disclose=True) as home:
        home.train()
    assert len(asked) == min(count, 1)
    assert AttackHost({}, None).is_idle


def test_attacks_on_a_network_read_the_answers_that_were_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking again would be another answer about each record, and under fresh noise another one."""
    pytest.importorskip("torch")
    spy, asked = Spy(), list[int]()
    contribute = PassiveParty.contribute_scores

    def counted(party: PassiveParty, caller: Any, session_id: str, request_id: int, rows: Any, *more: Any) -> bytes:
        asked.append(len(rows))
        return contribute(party, caller, session_id, request_id, rows, *more)

    monkeypatch.setattr(PassiveParty, "contribute_scores", counted)
    options = {"hidden": 4, "backward": "plain"}
    with town(
        tmp_path, learner="network", learner_options=options, attacks={"spy": spy}, validation_fraction=0.0
    ) as home:
        home.train()
        tested = len(home.active._serving.newest.model.rows.test)  # type: ignore[union-attr]
        home.scores(IDS[:3])
        home.active._attacks._threads.shutdown(wait=True)
    assert asked == [tested, 3]
    assert [view.n for view in spy.seen] == [tested, 3]
    assert all(view.scores is not None and view.scores.shape[1] == 5 for view in spy.seen)


def test_a_network_on_shared_weights_is_asked_for_no_class_rows(tmp_path: Path) -> None:
    """Its label party has its first layer whole; what scores of chosen records tell are no rows of it."""
    pytest.importorskip("torch")
    settings = small_settings(learner="network", learner_options={"hidden": 3, "backward": "shared"}, epochs=1)
    with house(tmp_path, settings=settings) as home:
        home.train()
        newest = home.active._serving.newest
        assert newest is not None
        known = home.active._attacks._knowledge_of(newest)
        tests = newest.model.rows.test
        view = known.view(tests, home.active._scoring.answers(newest.model, tests.tolist()))
    assert known.own_rows is None
    own: Any = newest.model.part
    assert view.weights_active is not None
    np.testing.assert_array_equal(view.weights_active, unit_rows(own.own.weights)[:, :-1])
