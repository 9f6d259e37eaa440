"""Epochs of a network on shared weights are validated: the loss, what is kept and counted, what is refused."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from services.common.agreement import TrainingPlan
from services.common.errors import InvalidMessage, OutOfOrder
from services.common.state_folder import StateInMemory
from services.exchange.opening_ledger import LEDGER, OpeningLedger, opened_in
from services.exchange.vectors import VectorHeader
from services.protocols.shared.share_messages import Kind
from services.protocols.shared.shared_serving import SharedPart
from tests.harness.parties import active_data, house, party_data, small_settings
from tests.harness.shared_layers import LAYER_PLAN, layer_terms, reference_of, run_layers, wired_layers
from tests.harness.shared_sessions import SharedProblem
from vfl.arrays import FloatArray
from vfl.learning import log_loss

# The label party trains with it.
pytest.importorskip("torch")

PLAN = LAYER_PLAN.changed(epochs=3, patience=3, validation_fraction=0.4)


def expected_losses(problem: SharedProblem, plan: TrainingPlan) -> list[float]:
    rows, blocks = layer_terms(problem, plan).validated_rows, list(problem.blocks.values())
    runs = [reference_of(problem, plan.changed(epochs=epochs, patience=0)) for epochs in range(1, plan.epochs + 1)]
    return [log_loss(run.scores(blocks)[rows], problem.labels[rows]) for run in runs]


@pytest.mark.parametrize("columns", [(3, 2), (2, 3, 1)])
def test_losses_are_those_of_float64(columns: tuple[int, ...]) -> None:
    problem = SharedProblem.random(columns=columns)
    with wired_layers(problem, PLAN) as parties:
        found = run_layers(parties)
        np.testing.assert_allclose(found, expected_losses(problem, PLAN), atol=1e-8)
        assert np.ptp(found) > 1e-3
        # Of validations nothing is left but the last one, which may be sent again.
        steps, kept = layer_terms(problem, PLAN).steps, {key[2] for key in parties["active"].exchange._received}
        assert kept == {steps - 1, steps + 3}


def test_who_chooses_its_shares_is_told_steps_only_and_no_observer_of_validations() -> None:
    problem, steps = SharedProblem.random(columns=(3, 2)), set[int]()

    class Listens:
        def added(self, step: int, peer: str) -> FloatArray | None:
            steps.add(step)
            return None

        def read(self, step: int, products: FloatArray) -> FloatArray:
            return products

    class Hears:
        def forwarded(self, step: int, products: FloatArray) -> None:
            steps.add(step)

        def read(self, step: int, peer: str, residuals: FloatArray) -> None:
            raise NotImplementedError

    with wired_layers(problem, PLAN, chosen=Listens(), tapes={"active": Hears()}) as parties:
        run_layers(parties)
    assert steps == set(range(layer_terms(problem, PLAN).steps))


def test_which_epoch_is_kept_is_counted_once_for_each_passive_party() -> None:
    problem, state = SharedProblem.random(columns=(3, 2, 1)), StateInMemory()
    with wired_layers(problem, PLAN) as parties:
        ledger = OpeningLedger(state, np.arange(37, dtype=np.uint64))
        object.__setattr__(parties["active"]._means, "ledger", ledger)
        run_layers(parties)
    assert opened_in(state.read(LEDGER) or b"") == {"passive-1": 2, "passive-2": 2}


@pytest.mark.parametrize(("patience", "of_validation"), [(0, 2), (3, 8)])
def test_sums_of_validation_records_are_counted_like_those_of_training_records(
    tmp_path: Path, patience: int, of_validation: int
) -> None:
    settings = small_settings(
        learner="network",
        epochs=3,
        batch_size=12,
        patience=patience,
        validation_fraction=0.2,
        test_fraction=0.1,
        learner_options={"hidden": 2, "backward": "shared"},
    )
    passive = [party_data(rows=range(60), columns=20)]
    with house(tmp_path, active=active_data(), passive=passive, settings=settings) as one:
        one.train()
        counted = one.passive["passive"]._equations
        ranks = counted._accounts["active"].equations.ranks(counted._keys(np.arange(60)))
    # Two units: of three epochs and the model that is served, which is all that test records are asked about.
    expected = Counter({8: 42}) + Counter({of_validation: 12}) + Counter({2: 6})
    assert Counter(ranks.tolist()) == expected


def test_a_validation_comes_after_its_epoch_and_has_forward_products_only() -> None:
    problem = SharedProblem.random(columns=(3, 2))
    plan = PLAN.changed(epochs=4)
    terms = layer_terms(problem, plan)
    assert [terms.taken_before(step) for step in (0, terms.steps, terms.steps + 1, terms.steps + 4)] == [
        0,
        terms.steps,
        terms.batches.steps_per_epoch,
        terms.steps,
    ]
    any_header = VectorHeader("", 1, 1, 0)
    with wired_layers(problem, plan) as parties:
        for one in parties.values():
            one.show_public_key()
        passive, label_party = parties["passive-1"].exchange, parties["active"].exchange
        with pytest.raises(OutOfOrder, match="A validation after 3 steps is out of order: 0 are taken here"):
            passive.expects("active", Kind.WEIGHT_PADS, terms.steps + 1, any_header)
        with pytest.raises(OutOfOrder, match="A validation after 12 steps is out of order"):
            label_party.expects("passive-1", Kind.HANDED, terms.steps + 4, any_header)
        for kind, step in ((Kind.SIGNAL_PADS, 1), (Kind.WEIGHT_PADS, 0), (Kind.WEIGHT_PADS, 5)):
            with pytest.raises(InvalidMessage, match="Expected a step from 0 to 11"):
                passive.expects("active", kind, terms.steps + step, any_header)
        with pytest.raises(OutOfOrder, match="Weights are frozen when all steps are taken"):
            parties["passive-1"].exchange._check_step("active", Kind.FROZEN, terms.steps)
    with wired_layers(problem, plan.changed(patience=0)) as parties, pytest.raises(InvalidMessage, match="a step from"):
        parties["passive-1"].exchange._check_step("active", Kind.WEIGHT_PADS, terms.steps + 1)


@pytest.mark.parametrize("parties", [2, 3])
def test_a_job_keeps_the_epoch_that_the_rung_that_reads_gradients_keeps(tmp_path: Path, parties: int) -> None:
    """Labels that no column tells: the validation loss is best early, and the model served is of that epoch."""
    rows, kept, scores = range(60), [], []
    passive = [party_data(rows=rows, seed=seed) for seed in range(1, parties)]
    options = {"hidden": 6, "learning_rate": 1.0}
    for rung in ("paillier", "shared"):
        settings = small_settings(
            learner="network",
            batch_size=12,
            epochs=12,
            patience=4,
            validation_fraction=0.3,
            learner_options={**options, "backward": rung},
        )
        with house(tmp_path / rung, active=active_data(rows=rows), passive=passive, settings=settings) as one:
            one.train()
            record = one.record()
            kept.append((record["kept_epoch"], len(record["epochs"])))
            scores.append(one.tested().scores)
            if rung == "shared":
                training = one.active_training
                assert isinstance(training.model.part, SharedPart)
                assert not training.side._states  # type: ignore[attr-defined]
                losses = [epoch["validation_loss"] for epoch in record["epochs"]]
                assert int(np.argmin(losses)) == record["kept_epoch"]
    assert kept[0] == kept[1]
    assert kept[0][0] + 5 == kept[0][1] <= 12
    # Weights are served in steps of 2**-16.
    assert np.abs(scores[0] - scores[1]).max() < 1e-3
