"""What is seen of a training on shared weights tells nothing, and the opening no more than its words.

Where each way of getting it wrong is caught:

    slot masks that don't cover                 test_masked_products: what the keeper decrypts is the mask
    masks of before, or from a seed             test_share_holder: once, independent; here: no setting reaches a draw
    lifts of the largest, of 0, of negatives    test_shares: lifts, and how often they fail
    z beyond its bits                           test_share_holder: a rate that diverges ends nothing
    rounding down, or at one party              test_shares: no bias; test_share_holder: a thousand steps
    borrows, last blocks, columns left over     test_masked_products, test_share_holder: any shape
    negative features, batches of unequal size  test_share_holder: signs, a thousand steps
    the room above the highest slot             test_shares: slots hold the largest; test_share_holder: shortest modulus
    limbs of exponents, zero exponents          test_masked_products: edges, zero exponents
    blocks of other rows                        test_share_holder: another model and nothing else
    U of one step with V of another             test_share_exchange: a step that is over does not come back
    opening twice                               here: the kept word is sent again, also by the next process
    more bits than w                            test_share_exchange: a word has its bits and no more
    errors that follow from content             test_share_holder: whatever arrives; here: whatever is opened
    shares in logs and records                  here
    others' features after the end              test_share_exchange: the end forgets
    two sessions with one key                   test_share_exchange: one key of its own
"""

import ast
import logging
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

import attacks
import services
from services.common.agreement import TrainingPlan
from services.common.errors import InvalidMessage, OutOfOrder
from services.common.run_folder import RunFolder
from services.common.state_folder import State, StateInMemory
from services.exchange.vectors import WireVector
from services.protocols.shared.opening import bits_of, opened, word_of
from services.protocols.shared.share_exchange import ShareExchange
from services.protocols.shared.share_mailbox import Outgoing
from services.protocols.shared.share_messages import Kind
from tests.harness.parties import active_data, house, party_data, small_settings
from tests.harness.shared_sessions import SHARED_PLAN, SharedProblem, SharedSession
from tests.harness.shared_wiring import as_session, run_all, wired_shares
from vfl.arrays import FloatArray, IntArray
from vfl.crypto.sharing.masked_products import kept
from vfl.crypto.sharing.shares import Integers, Shares

SEEDS = range(10)
# Batches of fewer rows than the passive party has columns: their sums tell every residual.
TELLING = SHARED_PLAN.changed(epochs=2, batch_size=4, key_bits=256)
PASSIVE = "passive-1"
# Of what is decrypted and its masks.
Reading: TypeAlias = Callable[[Integers, Integers], Integers]


# --- an attack that would read labels of anything but uniform numbers ---


class Listening:
    """A passive party of one session that keeps what it decrypts, and what it computes itself."""

    def __init__(self, problem: SharedProblem, plan: TrainingPlan = TELLING) -> None:
        self.session = SharedSession.begin(problem, plan)
        holder: Any = self.session.holders[PASSIVE]
        self._holder = holder
        self.steps: list[tuple[IntArray, Integers, Integers, Integers]] = []
        self._sums, holder.sums = holder.sums, self._listen
        self.session.train()

    def _listen(self, step: int, batch: IntArray, residual: Shares, answers: Any, handed: Any) -> Shares:
        holder = self._holder
        read: Any = [
            kept(one, holder._formats.backward, holder._fills(PASSIVE), holder._key, holder.engine)
            for one in answers.values()
        ]
        masks = self.session.holders["active"]._drawn[step, "backward", PASSIVE][1].residues
        self.steps.append((holder._rows_of(batch), residual.integers, sum(read), masks))
        found: Shares = self._sums(step, batch, residual, answers, handed)
        return found

    def labels(self, decrypted: Reading, own: FloatArray) -> IntArray:
        """Solve every step for its residuals, and add what the own part of the opened score says."""
        formats = self.session.terms.formats
        X = self._holder._features
        ring, unit = 1 << formats.gradient_ring, 2.0**formats.product_fraction_bits
        votes = own.copy()
        for rows, residual, read, masks in self.steps[: self.session.terms.schedule.steps_per_epoch]:
            offset = X[rows].sum(axis=0)[:, None] * self._holder._residual_offset
            sums = (decrypted(read, masks) - offset + X[rows].T @ residual + ring // 2) % ring - ring // 2
            columns = (X[rows] / 2.0**formats.feature_fraction_bits).astype(np.float64)
            f = np.linalg.lstsq(columns.T, (sums / unit).astype(np.float64), rcond=None)[0][:, 0]
            # More than the own part says, in the right order of size or in none.
            votes[rows] -= 2 * np.clip(f, -4, 4)
        return (votes > 0).astype(np.int64)

    def own_part(self) -> FloatArray:
        """The own part of the score, by the words that this party is opened."""
        terms, halves, bits = self.session.terms, self.session.halves, bits_of(self.session.terms.agreement)
        shares: Any = {name: half.weights for name, half in halves.items()}
        word = word_of(shares["active"][terms.places("active")[PASSIVE]], bits)
        weights = opened(word, shares[PASSIVE][terms.places(PASSIVE)[PASSIVE]], bits)
        score: FloatArray = (self.session.problem.blocks[PASSIVE] @ weights)[:, 0]
        centred: FloatArray = score - score.mean()
        return centred


def as_read(read: Integers, masks: Integers) -> Integers:
    return read


def unmasked(read: Integers, masks: Integers) -> Integers:
    total: Integers = read + masks
    return total


def uniform(read: Integers, masks: Integers) -> Integers:
    return np.array([[secrets.randbits(400)] for _ in read], dtype=object)


def balanced(seed: int, *, follows: bool = False) -> SharedProblem:
    """As many records of either class; labels are drawn, or follow from all columns."""
    problem = SharedProblem.random(rows=40, columns=(3, 6), seed=seed)
    scores = np.hstack(list(problem.blocks.values())) @ np.random.default_rng(seed).normal(size=10)
    order = np.argsort(scores) if follows else np.random.default_rng(seed + 1).permutation(40)
    labels = np.zeros(40, dtype=np.int64)
    labels[order[20:]] = 1
    return SharedProblem(problem.blocks, labels, 2)


@pytest.fixture(scope="module")
def listeners() -> list[Listening]:
    return [Listening(balanced(seed)) for seed in SEEDS]


def right(one: Listening, decrypted: Reading, own: FloatArray) -> int:
    return int((one.labels(decrypted, own) == one.session.problem.labels).sum())


def test_who_knows_the_masks_reads_labels(listeners: list[Listening]) -> None:
    """What the next two tests would see, were there anything; a record whose z is beyond its label's 2 misleads."""
    assert sum(right(one, unmasked, np.zeros(40)) for one in listeners) >= 395


def test_no_attack_in_training_beats_the_majority_on_drawn_labels(listeners: list[Listening]) -> None:
    """Ten seeds of 40 records, half of each class: 200 expected, 47 more is 1e-6; of a first step's 40, 36 or more."""
    assert sum(right(one, as_read, np.zeros(40)) for one in listeners) < 247
    first = 0
    for one in listeners:
        rows = one.steps[0][0]
        first += int((one.labels(as_read, np.zeros(40))[rows] == one.session.problem.labels[rows]).sum())
    assert first < 36


def test_an_attack_after_the_opening_does_as_well_with_uniform_numbers(listeners: list[Listening]) -> None:
    """Paired over ten seeds, the same opened words: differences add up to none that isn't chance at 1e-6."""
    pairs = [(right(one, as_read, own), right(one, uniform, own)) for one in listeners for own in [one.own_part()]]
    assert abs(sum(real - other for real, other in pairs)) < 5 * (2 * 400 * 0.25) ** 0.5


def test_the_opening_says_of_training_records_what_it_says_of_unseen_ones() -> None:
    """On labels that columns tell the own weights are a classifier, of records that nobody trained on as well."""
    plan = TELLING.changed(test_fraction=0.5, batch_size=20, epochs=4)
    differences = []
    for seed in SEEDS:
        one = Listening(balanced(seed, follows=True), plan=plan)
        correct = (one.own_part() > 0) == (one.session.problem.labels == 1)
        seen = np.isin(np.arange(40), np.concatenate([rows for rows, *_ in one.steps]))
        assert seen.sum() == 20
        differences.append(correct[seen].mean() - correct[~seen].mean())
    # One record is .05; without any difference the mean of ten is within .2 but for once in ten thousand.
    assert abs(np.mean(differences)) < 0.2


ON_LABELS = ("own_part", "label_recovery", "trajectory_labels")
# One opened weight, and the labels that it could be about.
OPENED_BITS, RECORDS = 18, 70


def told_of_drawn_labels(folder: Path, seed: int, protocol: str) -> dict[str, int]:
    """Of labels that are drawn, how many each attack has right once weights are opened; a record a step."""
    rows = range(100)
    labels = [("no", "yes")[one % 2] for one in np.random.default_rng(seed).permutation(rows)]
    settings = small_settings(
        steps="plain",
        calibrated=False,
        protocol=protocol,
        opening="always",
        opening_bits=OPENED_BITS,
        epochs=1,
        batch_size=1,
        batches="fixed",
        patience=0,
    )
    data = {"active": active_data(rows=rows, labels=labels), "passive": [party_data(rows=rows, columns=1, seed=seed)]}
    mounted = {name: attacks.load_training(name) for name in ON_LABELS}
    folder.mkdir()
    with house(folder, settings=settings, passive_adversary=mounted, **data) as home:  # type: ignore[arg-type]
        home.train()
        newest = home.active._serving.newest
        assert newest is not None
        truth = newest.model.labels_of(np.arange(len(rows)))
    run = RunFolder(folder)
    found = {one.attack: run.found_labels("passive", one.attack) for one in run.training_outcomes() if one.is_done}
    judged = np.unique(found["own_part"].step_rows)
    assert len(judged) == RECORDS
    # An attack that finds nothing to go by guesses.
    guessed = dict.fromkeys(ON_LABELS, RECORDS // 2)
    return guessed | {name: int((one.labels[judged] == truth[judged]).sum()) for name, one in found.items()}


@pytest.mark.slow("chance shows over many trainings only")
def test_of_drawn_labels_no_attack_has_more_right_after_the_opening_than_its_bits_allow(tmp_path: Path) -> None:
    """Of n even labels b bits tell none but n (1 - h(e)) <= b: at most 1 - e of them are right on average.

    Attacks that only listen have half right, at 1e-6; the own weights follow the labels a little. Under Protocol 1 the
    same attacks have all.
    """
    e = np.linspace(1e-6, 0.5, 100_000)
    entropy = -e * np.log2(e) - (1 - e) * np.log2(1 - e)
    most = 1 - e[np.argmax(RECORDS * (1 - entropy) <= OPENED_BITS)]
    assert 0.78 < most < 0.79
    told = [told_of_drawn_labels(tmp_path / f"{seed}", seed, "shared") for seed in range(1, 11)]
    total = {name: sum(one[name] for one in told) for name in ON_LABELS}
    assert max(total.values()) <= most * 10 * RECORDS
    assert max(total["label_recovery"], total["trajectory_labels"]) < 5 * RECORDS + 63
    before = told_of_drawn_labels(tmp_path / "hu", 1, "hu")
    assert before["label_recovery"] == before["trajectory_labels"] == RECORDS


# --- the opening ---


@pytest.fixture(params=[18, 24])
def at_the_end(request: pytest.FixtureRequest) -> Iterator[tuple[ShareExchange, Outgoing, Shares]]:
    """The passive party when all steps are taken, the word that it is due, and its shares."""
    problem, plan = SharedProblem.random(), SHARED_PLAN.changed(epochs=1, opening_bits=request.param)
    with wired_shares(problem, plan, timeout=1.0) as parties:
        run_all(parties, problem.terms(plan))
        session = as_session(problem, plan, parties)
        weights: Any = {name: half.weights for name, half in session.halves.items()}
        (message,) = parties["active"].exchange.open(weights["active"])
        yield parties[PASSIVE].exchange, message, weights[PASSIVE]


def test_whatever_is_opened_the_session_goes_on(at_the_end: tuple[ShareExchange, Outgoing, Shares]) -> None:
    """Any word of the agreed size gives weights in range; nothing is told of which ones they are."""
    exchange, message, shares = at_the_end
    vector, results = message.vector, []
    size = len(vector.data)
    for data in (vector.data, secrets.token_bytes(size), b"\xff" * size, bytes(size)):
        exchange._received.clear()
        exchange.receive("active", Kind.OPENED, message.step, _with(vector, data))
        results.append(exchange.opened(shares))
    assert all(np.isfinite(one).all() and (np.abs(one) <= 2.0**7).all() for one in results)


def test_a_word_is_taken_once_and_of_the_agreed_size_only(
    at_the_end: tuple[ShareExchange, Outgoing, Shares],
) -> None:
    exchange, message, _ = at_the_end
    vector = message.vector
    longer = WireVector(vector.key_id, vector.count, vector.width + 1, 0, bytes(vector.count * (vector.width + 1)))
    for wrong in (longer, _with(vector, vector.data[1:]), _with(vector, b"")):
        with pytest.raises(InvalidMessage):
            exchange.receive("active", Kind.OPENED, message.step, wrong)
    exchange.receive("active", Kind.OPENED, message.step, vector)
    exchange.receive("active", Kind.OPENED, message.step, vector)
    with pytest.raises(OutOfOrder, match="taken once"):
        exchange.receive("active", Kind.OPENED, message.step, _with(vector, bytes(len(vector.data) - 1) + b"\x01"))


def _with(vector: WireVector, data: bytes) -> WireVector:
    return WireVector(vector.key_id, vector.count, vector.width, 0, data)


def test_the_next_process_sends_the_word_that_was_kept() -> None:
    """Two openings of different weights would tell their difference."""
    problem, state = SharedProblem.random(), StateInMemory()
    words = [_opened_by_the_label_party(problem, state) for _ in range(2)]
    assert words[0] == words[1]
    assert _opened_by_the_label_party(problem, StateInMemory()) != words[0]


def _opened_by_the_label_party(problem: SharedProblem, state: State) -> bytes:
    with wired_shares(problem, SHARED_PLAN.changed(epochs=1)) as parties:
        run_all(parties, problem.terms(SHARED_PLAN.changed(epochs=1)))
        exchange = parties["active"].exchange
        exchange._ledger.state = state
        (message,) = exchange.open(parties["active"].half.weights)  # type: ignore[arg-type]
        return message.vector.data


# --- what is written ---


def test_shares_are_in_no_log_and_no_record(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Neither party's share of any weight, in digits or in bytes, under any name; words are in the state alone."""
    caplog.set_level(logging.DEBUG)
    with house(tmp_path, settings=small_settings(protocol="shared", opening="always", epochs=1, batch_size=13)) as home:
        halves: dict[str, Any] = {}
        opening = _kept_at_the_opening(halves)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ShareExchange, "open", opening)
            home.train()
    assert sorted(halves) == ["active", "passive"]
    integers = [int(value) for shares in halves.values() for value in shares.integers.ravel() if abs(value) > 2**60]
    assert len(integers) >= 12
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    texts = b"".join(written) + caplog.text.encode()
    for value in integers:
        size = (value.bit_length() + 15) // 8
        assert str(abs(value)).encode() not in texts
        for order in ("big", "little"):
            assert abs(value).to_bytes(size, order).strip(b"\0") not in texts
    assert not any("opening" in path.name for path in tmp_path.rglob("*"))
    assert repr(next(iter(halves.values()))).startswith("Shares(shape=")


def _kept_at_the_opening(halves: dict[str, Any]) -> Callable[..., Any]:
    real = ShareExchange.open

    def opening(exchange: ShareExchange, weights: Shares) -> Any:
        halves[exchange._name] = weights
        return real(exchange, weights)

    return opening


def test_no_setting_reaches_the_draw_of_a_mask() -> None:
    """Only tests give a holder another draw than the operating system's."""
    for path in Path(next(iter(services.__path__))).rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("ShareHolder"):
                assert len(call.args) == 5
                assert {one.arg for one in call.keywords} <= {"backward"}
