"""Steps by own moments on shared weights: each party shares its columns turned, so that plain steps are these."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score

from services.adversary.knowledge import own_class_rows
from services.ciphers.default_plan import with_open_terms
from services.common.errors import FederationError, InvalidMessage
from services.common.learner_calls import LearnerCalls, LearnerFailed
from services.party.model_file import packed, unpacked
from services.party.party_model import PartyModel
from services.party.turned_columns import Turn
from services.protocols.shared.shared_serving import SharedPart
from services.protocols.shared.shared_terms import SharedTerms
from tests.harness.parties import ACTIVE, active_data, house, party_data, small_settings
from tests.harness.shared_sessions import SHARED_PLAN, SharedProblem, SharedSession, largest_error
from tests.harness.shared_wiring import as_session, joined_weights, open_all, run_all, wired_shares
from tests.unit.services.protocols.shared.test_shared_parties import trained_weights
from tests.unit.services.protocols.shared.test_shared_serving import models_of
from tests.unit.services.protocols.shared.test_validation import last_bit, loss_of, train
from vfl.arrays import FloatArray
from vfl.learning import BatchSchedule, GradientDescent, OwnData, ResidualScheme, VerticalData, train_by_epoch
from vfl.learning.confidence import confidence_scores
from vfl.learning.linear.own_moments import DAMPING
from vfl.learning.linear.regression import LinearRegression

PLAN = SHARED_PLAN.changed(protocol="shared", steps="own_moments", epochs=8, batch_size=37)
# Of products: what cells miss by, 2^-17 each, where those of a rare record are up to 12. Weights turn it back, by
# (c DAMPING m)^(-1/2) = 20 / m^(1/2) at most, where m is the column's mean square: a third here.
OF_PRODUCTS, OF_WEIGHTS = 1e-4, 3e-4


def turns_of(session: SharedSession) -> dict[str, Turn]:
    plan, calls = session.agreement.plan, LearnerCalls(session.agreement.plan.family)
    return {name: session.terms.made_turn(session.problem.own(name, plan), calls) for name in session.problem.blocks}


def trained_plainly(
    problem: SharedProblem, first: Mapping[str, FloatArray], epochs: int, *, own_moments: bool = True
) -> dict[str, FloatArray]:
    """Steps with momentum in one place and in float64, from these weights, without any turn of columns."""
    scheme, joined = ResidualScheme(problem.classes), np.hstack(list(problem.blocks.values()))
    curvature, rate = scheme.gradient_scale(1), 1 / len(problem.blocks)
    weights = before = dict(first)
    for taken in range(epochs):
        ahead = {name: now + taken / (taken + 3) * (now - before[name]) for name, now in weights.items()}
        residual = scheme.active_share(joined @ np.vstack(list(ahead.values())), problem.labels)
        moved = {}
        for name, block in problem.blocks.items():
            moments = curvature / len(block) * block.T @ block
            damping = np.diag(np.where(np.diag(moments) > 0, DAMPING * np.diag(moments), 1.0))
            gradient = scheme.gradient_scale(len(block)) * block.T @ residual
            moved[name] = ahead[name] - rate * (
                np.linalg.solve(moments + damping, gradient) if own_moments else gradient
            )
        weights, before = moved, weights
    return weights


def trained_on_cells(problem: SharedProblem, first: Mapping[str, FloatArray], epochs: int) -> dict[str, FloatArray]:
    """Gradient steps with momentum on columns as they are, in float64: as own moments take them on turned ones."""
    scheme, joined = ResidualScheme(problem.classes), np.hstack(list(problem.blocks.values()))
    theta = before = np.vstack(list(first.values()))
    rate = scheme.gradient_scale(len(joined)) / len(problem.blocks)
    for taken in range(epochs):
        ahead = theta + taken / (taken + 3) * (theta - before)
        theta, before = ahead - rate * joined.T @ scheme.active_share(joined @ ahead, problem.labels), theta
    ends = np.cumsum([len(weights) for weights in first.values()])[:-1]
    return dict(zip(first, np.split(theta, ends), strict=True))


def with_odd_columns(problem: SharedProblem) -> SharedProblem:
    """A column twice, a constant, zeros and a column of one record, at every party."""
    blocks = {
        name: np.hstack([block[:, :1], np.ones((len(block), 1)), 0 * block[:, :1], np.eye(len(block))[:, :1], block])
        for name, block in problem.blocks.items()
    }
    return replace(problem, blocks=blocks)


# --- the trajectory ---


@pytest.mark.parametrize(
    ("columns", "classes"), [((3, 2), 2), ((2, 2), 3), pytest.param((2, 1, 2), 2, marks=pytest.mark.thorough)]
)
def test_weights_are_those_of_steps_by_own_moments_in_float64(columns: tuple[int, ...], classes: int) -> None:
    problem = with_odd_columns(SharedProblem.random(columns=columns, classes=classes))
    session = SharedSession.begin(problem, PLAN)
    turns = turns_of(session)
    first = {name: turns[name].weights(weights) for name, weights in session.joined().items()}
    session.train()
    found = {name: turns[name].weights(weights) for name, weights in session.joined().items()}
    expected = trained_plainly(problem, first, PLAN.epochs)
    for name, weights in expected.items():
        np.testing.assert_allclose(found[name], weights, rtol=0, atol=OF_WEIGHTS)
        block = problem.blocks[name]
        np.testing.assert_allclose(block @ found[name], block @ weights, rtol=0, atol=OF_PRODUCTS)
    # Neither plain steps nor steps without momentum end there.
    plainly = trained_plainly(problem, first, PLAN.epochs, own_moments=False)
    assert max(np.abs(found[name] - weights).max() for name, weights in plainly.items()) > 0.1


def test_on_the_same_cells_shares_are_exact() -> None:
    """All that is missed is what cells are rounded by: of these, momentum with shares is that with numbers."""
    problem = SharedProblem.random(columns=(3, 2))
    session = SharedSession.begin(problem, PLAN)
    cells = {name: turn.cells(problem.blocks[name]) for name, turn in turns_of(session).items()}
    expected = trained_on_cells(replace(problem, blocks=cells), session.joined(), PLAN.epochs)
    session.train()
    assert largest_error(session, expected) < 1e-8


def test_a_validation_is_of_the_weights_and_not_of_where_momentum_carries_them() -> None:
    """Of as many validation records as are trained on, which a count doesn't tell apart."""
    problem = SharedProblem.random(rows=40, columns=(3, 2))
    plan = PLAN.changed(epochs=6, batch_size=20, validation_fraction=0.5, patience=5)
    terms = problem.terms(plan)
    assert len(np.concatenate(terms.schedule.blocks)) == 20
    with wired_shares(problem, plan) as parties:
        losses = train(parties, terms)
        weights = as_session(problem, plan, parties).joined()
        validated = np.concatenate([terms.blocks[number] for number in terms.validation])
        cells = [one.turn.cells(problem.blocks[name][validated]) for name, one in parties.items()]
    z = np.hstack(cells) @ np.vstack(list(weights.values()))
    assert abs(losses[-1] - loss_of(z, problem.labels[validated], 2)) <= 1.01 * last_bit(terms, 2)


@pytest.mark.slow("379 records are encrypted, and each of 16 steps is on all of them")
def test_sixteen_steps_learn_what_sixty_epochs_of_plain_ones_do() -> None:
    """AUC of a third of breast_cancer, in at most a twentieth of the steps of the default plan."""
    bundle = load_breast_cancer()
    features, labels = bundle.data, bundle.target.astype(np.int64)
    scaled = np.rint((features - features.min(axis=0)) / np.ptp(features, axis=0) * 2**16) / 2**16
    table, tested = np.hstack([scaled[:, :15], np.ones((569, 1)), scaled[:, 15:]]), np.arange(569) % 3 == 0
    blocks = dict(zip(("active", "passive-1"), np.split(table[~tested], [16], axis=1), strict=True))
    problem = SharedProblem(blocks, labels[~tested], classes=2)
    session = SharedSession.begin(problem, PLAN.changed(epochs=16, batch_size=379))
    turns = turns_of(session)
    first = [turns[name].weights(weights) for name, weights in session.joined().items()]
    session.train()
    found = [turns[name].weights(weights) for name, weights in session.joined().items()]

    size = with_open_terms(problem.agreement(SHARED_PLAN.changed(protocol="shared", batch_size=0))).plan.batch_size
    schedule = BatchSchedule(np.arange(379), size, seed=1, reshuffled=False)
    assert 60 * schedule.steps_per_epoch >= 20 * 16
    *_, plain = train_by_epoch(
        VerticalData(list(blocks.values()), problem.labels), first, GradientDescent(schedule, 60, 0.5)
    )

    def auc(weights: Sequence[FloatArray]) -> float:
        return float(roc_auc_score(labels[tested], table[tested] @ np.vstack(weights)))

    assert auc(found) >= auc(plain) - 0.002


# --- whole parties ---

WHOLE: dict[str, Any] = {
    "protocol": "shared",
    "steps": "own_moments",
    "epochs": 6,
    "batch_size": 0,
    "patience": 0,
    "private_seed": 3,
    "calibrated": False,
}


def test_opened_weights_are_those_of_the_columns() -> None:
    """An opened word misses by 2^-17 as well."""
    problem = SharedProblem.random(columns=(3, 2))
    with wired_shares(problem, PLAN) as parties:
        run_all(parties, problem.terms(PLAN))
        joined = as_session(problem, PLAN, parties).joined()
        for name, weights in open_all(parties).items():
            np.testing.assert_allclose(weights, parties[name].turn.weights(joined[name]), rtol=0, atol=OF_WEIGHTS)
            assert np.abs(weights - joined[name]).max() > 0.1


def test_opened_weights_are_recorded_kept_disclosed_and_scored_as_any_others(tmp_path: Path) -> None:
    """Nothing of a turn is left."""
    rows, settings = range(60), small_settings(**WHOLE, opening="always", disclose=True)
    passive = [party_data(rows=rows, seed=1)]
    with house(tmp_path, active=active_data(rows=rows), passive=passive, settings=settings) as one:
        one.train()
        newest, party = one.active._serving.newest, one.passive["passive"]
        assert newest is not None
        assert one.record()["agreement"]["plan"]["batch_size"] == 42
        kept = party._models.served
        assert kept is not None
        again = unpacked(packed(kept, party._context.data), party._context.data).model
        disclosed = party.disclose_parameters(ACTIVE, one.active.session_id)
        scores = one.active.predict(["id-3"]).scores
        at = [newest.row_of_id["id-3"]]
        logits = sum(model.partial_scores(at) for model in (newest.model, kept.model))
        weights = trained_weights(one)[1]
    assert weights.tobytes() == again.part.arrays()["weights"].tobytes() == disclosed.arrays()["weights"].tobytes()
    np.testing.assert_array_equal(scores, confidence_scores(np.asarray(logits)))


@pytest.mark.parametrize("parties", [2, 3])
def test_weights_that_stay_shared_score_records_as_the_columns_weights_do(tmp_path: Path, parties: int) -> None:
    rows = range(60)
    passive = [party_data(rows=rows, seed=seed) for seed in range(1, parties)]
    active = active_data(rows=rows, labels=[("a", "b", "c")[row % 3] for row in rows])
    with house(tmp_path, active=active, passive=passive, settings=small_settings(**WHOLE)) as one:
        one.train()
        models, newest = models_of(one), one.active._serving.newest
        assert newest is not None
        ids = ["id-3", "id-1", "id-17", "id-59"]
        places = [newest.row_of_id[name] for name in ids]
        first, again = one.active.predict(ids), one.active.predict(ids[::-1])
        # With chosen columns the label party reads its own class rows, of the columns as they are.
        own_rows = own_class_rows(newest.model, one.active._scoring.scores)
        data = one.active._context.data
        kept = unpacked(packed(newest.kept, data), data, one.active.labels).model
    assert np.array_equal(first.scores, again.scores[::-1])
    shared, logits = joined_weights(models), np.zeros((len(ids), 3))
    for name, model in models.items():
        turn = turn_of(model)
        weights = turn.weights(shared[name])
        assert 0.01 < np.abs(weights).max() < 100
        logits += model.features[places] @ weights
        if name == "active":
            assert own_rows is not None
            np.testing.assert_allclose(own_rows, weights.T - weights.T[0], rtol=0, atol=1e-9)
            np.testing.assert_array_equal(turn_of(kept).cells(kept.features), turn.cells(model.features))
    # What cells are rounded by.
    np.testing.assert_allclose(first.scores, confidence_scores(logits), rtol=0, atol=1e-4)


def turn_of(model: PartyModel) -> Turn:
    assert isinstance(model.part, SharedPart)
    assert model.part.turn is not None
    return SharedTerms(model.agreement).turn(model.part.turn)


def test_a_turn_that_does_not_fit_is_no_part() -> None:
    nothing = np.zeros(0, dtype=np.uint8)
    part = SharedPart(np.zeros((3, 1), dtype=np.uint64), nothing, nothing, nothing, turn=np.eye(3))
    assert SharedPart.of(part.arrays()).turn is not None
    assert SharedPart.of({name: one for name, one in part.arrays().items() if name != "turn"}).turn is None
    for turn in (np.eye(2), np.eye(3, dtype=np.int64), np.ones(3)):
        with pytest.raises(ValueError, match="turn of its columns"):
            SharedPart.of({**part.arrays(), "turn": turn})


# --- what a session may be ---


def test_a_batch_is_all_training_records_or_the_session_is_refused_in_words(tmp_path: Path) -> None:
    settings = small_settings(**{**WHOLE, "batch_size": 10})
    with (
        house(tmp_path, settings=settings) as one,
        pytest.raises(FederationError, match="batches have 10 of 38: set batch_size to 0 or 38, or protocol=hu"),
    ):
        one.train()


def test_a_batch_size_that_is_left_open_is_all_training_records() -> None:
    problem = SharedProblem.random(rows=1000)
    plan = PLAN.changed(batch_size=0, validation_fraction=0.1, test_fraction=0.2)
    assert with_open_terms(problem.agreement(plan)).plan.batch_size == 700
    # Plain steps have smaller ones.
    assert with_open_terms(problem.agreement(plan.changed(steps="plain"))).plan.batch_size < 700


def test_a_penalty_takes_the_protocol_in_which_nobody_else_steps() -> None:
    with pytest.raises(InvalidMessage, match="trains under protocol=hu with these options"):
        PLAN.changed(l2=0.1, protocol="shared").check()
    PLAN.check()


def test_cells_tell_nobody_their_range() -> None:
    """Lengths follow from how many records are trained on, and of how many classes, alone."""
    low, high = (SharedProblem.random(rows=64, signed=signed) for signed in (False, True))
    high = replace(high, blocks={name: 200 * block for name, block in high.blocks.items()})
    formats = [problem.terms(PLAN.changed(batch_size=64)).formats for problem in (low, high)]
    assert formats[0] == formats[1]
    # (64 x 4)^(1/2)
    assert formats[0].feature_integer_bits == 4


@pytest.mark.parametrize(
    ("options", "counts"),
    [({"steps": "plain"}, (15, 17)), ({}, (15, 16)), ({"feature_fraction_bits": 8}, (17, 17))],
    ids=["as they are", "turned", "turned, 8 bits"],
)
def test_turned_cells_take_the_room_of_others_but_for_a_slot(options: dict[str, Any], counts: tuple[int, int]) -> None:
    """Of 1,000 records of one-hot bank: rows, and columns, in a ciphertext (docs/decisions/0026)."""
    problem = SharedProblem.random(rows=1000, columns=(34, 28), signed=False)
    formats = problem.terms(PLAN.changed(key_bits=2048, batch_size=1000, epochs=16, **options)).formats
    assert (formats.forward.count, formats.backward.count) == counts


# --- bad input ---


def bad_blocks(kind: str) -> FloatArray:
    generator = np.random.default_rng(7)
    if kind == "independent":
        return generator.uniform(0, 1, (400, 330))
    if kind == "more columns than rows":
        return generator.uniform(0, 1, (20, 60))
    if kind == "one-hot":
        return np.eye(1000)[generator.integers(0, 1000, 300)]
    if kind == "constant":
        return np.full((40, 4), 0.7)
    if kind == "five rows":
        return generator.uniform(0, 1, (5, 3))
    if kind == "large and small":
        return generator.normal(size=(40, 4)) * [2.0**15, 1.0, 2.0**-12, 0.0]
    return np.repeat(generator.uniform(0, 1, (40, 1)), 5, axis=1)


@pytest.mark.parametrize(
    "kind",
    ["independent", "more columns than rows", "twice", "constant", "five rows", "one-hot", "large and small"],
)
@pytest.mark.parametrize("of_one_class", [False, True])
def test_whatever_columns_hold_the_result_is_that_of_float64(kind: str, of_one_class: bool) -> None:
    """What cells hold, in plain numbers: that shares compute the same is shown above."""
    table = np.rint(bad_blocks(kind) * 2**16) / 2**16
    labels = np.zeros(len(table), dtype=np.int64) if of_one_class else np.arange(len(table)) % 2
    half = table.shape[1] // 2
    blocks = {"active": np.hstack([table[:, :half], np.ones((len(table), 1))]), "passive-1": table[:, half:]}
    problem = SharedProblem(blocks, labels, classes=2)
    plan, calls = PLAN.changed(batch_size=len(table)), LearnerCalls(PLAN.family)
    terms = problem.terms(plan)
    turns = {name: terms.made_turn(problem.own(name, plan), calls) for name in blocks}
    cells = {name: turns[name].cells(block) for name, block in blocks.items()}
    first = {name: plan.family.begin(problem.own(name, plan)).weights for name in blocks}
    turned = {name: turns[name].weights_of_cells(weights) for name, weights in first.items()}
    for name, turn in turns.items():
        assert np.abs(cells[name]).max() <= 2**terms.formats.feature_integer_bits
        np.testing.assert_allclose(turn.weights(turned[name]), first[name], rtol=0, atol=1e-8)
    last = trained_on_cells(replace(problem, blocks=cells), turned, 8)
    # What an opened word holds.
    assert max(np.abs(weights).max() for weights in last.values()) < 2**7
    expected = trained_plainly(problem, first, 8)
    found, wanted = (
        np.sum([block @ weights[name] for name, block in blocks.items()], axis=0)
        for weights in ({name: turns[name].weights(weights) for name, weights in last.items()}, expected)
    )
    assert np.isfinite(wanted).all()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-3)


def test_a_record_that_is_longer_than_any_trained_one_is_cut_and_said(caplog: pytest.LogCaptureFixture) -> None:
    """None of those that are trained on is: x^T D^-1 x is n / c at most."""
    problem = SharedProblem.random(rows=37)
    block = problem.blocks["passive-1"].copy()
    block[:, 0] *= 2.0**-10
    rare = replace(problem, blocks={**problem.blocks, "passive-1": block})
    turn = rare.terms(PLAN).made_turn(rare.own("passive-1", PLAN), LearnerCalls(PLAN.family))
    with caplog.at_level(logging.WARNING):
        inside = turn.cells(block)
        assert not caplog.records
        asked = np.vstack([block, [[1.0, 0.5]]])
        cells = turn.cells(asked)
    (record,) = caplog.records
    assert "1 of 38 records are longer than any that is trained on may be" in record.message
    # A record's cells don't depend on what stands beside it.
    np.testing.assert_array_equal(cells[:-1], inside)
    assert np.linalg.norm(cells[-1]) == pytest.approx(2.0**4, abs=1e-3)


def test_sums_of_cells_are_told_as_those_of_the_columns() -> None:
    problem = SharedProblem.random()
    turn = problem.terms(PLAN).made_turn(problem.own("active", PLAN), LearnerCalls(PLAN.family))
    block, residual = problem.blocks["active"], np.random.default_rng(3).normal(size=(37, 1))
    assert turn.matrix is not None
    np.testing.assert_allclose(turn.sums((block @ turn.matrix).T @ residual), block.T @ residual, atol=1e-9)


def test_a_learner_that_turns_columns_wrongly_is_named() -> None:
    class Wrong(LinearRegression):
        def turned_norm(self, classes: int, records: int) -> float:
            return float("nan")

        def turn(self, own: OwnData) -> FloatArray:
            return np.ones((1, 1))

    calls = LearnerCalls(Wrong(steps="own_moments"))
    with pytest.raises(LearnerFailed, match="bounds the norm of a record by no positive number"):
        calls.turned_norm(2, 37)
    with pytest.raises(LearnerFailed, match="a turn of columns of shape 1 x 1, expected 4 x 4"):
        calls.turn(SharedProblem.random().own("active", PLAN))
