"""Learners of other packages: one built from the page's text is trained, and those that do their worst are named."""

import sys
from pathlib import Path

import numpy as np
import pytest

from services.common import learner_calls
from services.common.agreement import TrainingPlan
from services.common.errors import FederationError, InvalidMessage
from services.common.identity import Identity, Role
from services.common.settings import SettingsError, load_settings
from tests.harness.documented_plugin import install, lay_out
from tests.harness.exchanges import SMALL_PLAN, random_problem, run_together, wired
from tests.harness.restarts import town
from vfl.arrays import FloatArray, IntArray
from vfl.learning import Forward, registry, split_rows
from vfl.learning.learner import Step
from vfl.learning.network import NetworkHalf

_HEAD = """
import threading
from dataclasses import dataclass
import numpy as np
from vfl.learning import Ask, Forward, Learner, LearnerSpec, LinearPart, Send

class Half:
    def __init__(self, own):
        self.own, self.weights = own, np.zeros((own.features, 1))

    def step(self, batch):
        products = yield Forward(self.weights)
        {line}
        yield Send(products)
        sums = yield Ask()
        self.weights = self.weights - 0.01 * sums

    def part(self):
        return Own(self.weights)

@dataclass(frozen=True)
class Own(LinearPart):
    pass

@dataclass(frozen=True)
class Bad(Learner):
    name = "bad"
    spec = LearnerSpec(senders="{senders}", part=Own, source="a test")

    def columns(self, classes):
        return 1

    def begin(self, own):
        return Half(own)

BEGUN = threading.Event()

def hang(*_):
    BEGUN.set()
    threading.Event().wait()

def fail(*_):
    raise RuntimeError("secret")
"""
# What the line in the middle of a step does, and what is said of it.
WORST = {
    "raises": ("raise RuntimeError('secret')", "learner bad failed with RuntimeError."),
    "exits": ("raise SystemExit(1)", "learner bad failed with SystemExit."),
    "hangs": ("threading.Event().wait()", "learner bad takes longer than the 2 s of a step's timeout."),
    "is too wide": ("products = np.zeros((len(batch), 2))", "learner bad gives values to send of shape"),
    "has lists": ("products = [[0.0]] * len(batch)", "learner bad gives values to send that are no 2-dimensional"),
    "sends twice": ("yield Send(products)", "send more often than its spec says"),
    "asks first": ("yield Ask()", "learner bad asks for sums before"),
    "asks of its own": (
        "from vfl.learning.trees.tree_requests import AskPlan; yield AskPlan()",
        "learner bad asks for what protocol=hu has no answer to",
    ),
    "asks strangely": ("yield 5", "learner bad yields something else than Forward, Send or Ask"),
    "loses its weights": ("self.weights = self.weights[1:]", "learner bad failed with ValueError."),
}


# Elsewhere than in a step: which call, a wrong answer to it, and what is said of that.
ELSEWHERE = {
    "Bad.columns": ("0", "that isn't 1 or more"),
    "Bad.outputs": ("'secret'", "a number of outputs that isn't 1 or more"),
    "Bad.tells": ("'secret'", "tells no EquationLeakage"),
    "Bad.begin": ("None", "failed with AttributeError"),
    "Half.step": ("['secret']", "failed with AttributeError"),
    "Half.part": ("'secret'", "gives a part of another class than its spec says"),
    "Own.shares": ("np.full((len(args[1]), 1), np.nan)", "gives shares that aren't finite"),
    "Own.arrays": ("{'weights': 'secret'}", "has a part that isn't made of named arrays"),
    "Bad.join": ("args[1][0][:1]", "gives joined shares of shape"),
    "Bad.link": ("np.full((len(args[1]), 2), 0.7)", "gives confidence scores that aren't shares of 1"),
}
_WRONG = {
    "fails": ("fail", "learner bad failed with RuntimeError."),
    "hangs": ("hang", "learner bad takes longer than the "),
}


def lay_out_bad(folder: Path, line: str, monkeypatch: pytest.MonkeyPatch, senders: str = "all", end: str = "") -> None:
    package = folder / "package"
    package.mkdir()
    code = f"{_HEAD.format(line=line, senders=senders)}\n{end}\n"
    lay_out(package, "bad_learner", code, {"plumbline.learners": "bad = bad_learner:Bad"})
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.delitem(sys.modules, "bad_learner", raising=False)
    registry.load("bad")  # tried in a child process, which takes longer than a call may below


def least_squares(blocks: list[FloatArray], labels: np.ndarray, rate: float, epochs: int) -> FloatArray:
    """What the page's learner comes to in one place."""
    features, targets = np.hstack(blocks), np.eye(2)[labels]
    plan = SMALL_PLAN
    split = split_rows(
        len(labels), validation_fraction=plan.validation_fraction, test_fraction=plan.test_fraction, seed=plan.seed
    )
    weights = np.zeros((features.shape[1], 2))
    schedule = plan.schedule(split.train)
    for epoch in range(epochs):
        for batch in schedule.epoch(epoch):
            rows = features[batch]
            weights = weights - rate / len(batch) * rows.T @ (rows @ weights - targets[batch])
    return weights


def test_a_learner_that_forwards_a_layer_needs_a_part_that_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = 'Bad.spec = LearnerSpec(senders="active", part=Own, source="a test", forwards=True)'
    with pytest.raises(ValueError, match="bad forwards a layer"):
        lay_out_bad(tmp_path, "pass", monkeypatch, end=end)
    plan = TrainingPlan(learner="bad", batch_size=10)
    with pytest.raises(InvalidMessage, match="bad forwards a layer: give its part, Own, a method scores"):
        plan.check()
    with pytest.raises(InvalidMessage, match="bad can't be used with these options here"):
        TrainingPlan.from_message(plan.to_message())


@pytest.mark.parametrize("parties", [2, 3])
@pytest.mark.parametrize("cipher", ["plain", "paillier"])
def test_the_pages_learner_trains_encrypted_what_it_trains_in_one_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cipher: str, parties: int
) -> None:
    """Two columns are sent for two classes, where the linear learner has one: the learner says how many."""
    install("adding-a-learner.md", "least_squares", tmp_path, monkeypatch)
    problem = random_problem(parties=parties)
    plan = SMALL_PLAN.changed(cipher=cipher, learner="least_squares", rate=0.05)
    assert plan.learner_options == {"rate": 0.05}
    with wired(problem, plan) as trainings:
        found = np.vstack(run_together(trainings, plan.epochs))
    expected = least_squares(list(problem.blocks.values()), problem.labels, 0.05, plan.epochs)
    np.testing.assert_allclose(found, expected, atol=1e-8)


def test_its_model_is_kept_and_scores_records_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "package").mkdir()
    install("adding-a-learner.md", "least_squares", tmp_path / "package", monkeypatch)
    with town(tmp_path, learner="least_squares", learner_options={"rate": 0.05}) as home:
        home.train()
        before = home.scores()
        home.restart(*home.names)
        np.testing.assert_array_equal(home.scores(), before)
    assert before.shape[1] == 2
    np.testing.assert_allclose(before.sum(axis=1), 1)


@pytest.mark.parametrize("worst", WORST)
def test_a_learner_that_does_its_worst_ends_its_session_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worst: str
) -> None:
    line, words = WORST[worst]
    lay_out_bad(tmp_path, line, monkeypatch)
    with town(tmp_path, learner="bad", step_timeout=2.0, learner_options={}) as home:
        with pytest.raises(FederationError, match="learner bad") as error:
            home.train()
        assert words in str(error.value)
        assert "secret" not in str(error.value)
        # The services go on.
        home.train(learner="linear")


@pytest.mark.parametrize("how", ["answers wrongly", *(pytest.param(one, marks=pytest.mark.thorough) for one in _WRONG)])
@pytest.mark.parametrize("call", ELSEWHERE)
def test_whatever_else_it_does_ends_its_session_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, how: str
) -> None:
    answer, words = ELSEWHERE[call]
    function, words = _WRONG.get(how, (f"lambda *args: {answer}", words))
    lay_out_bad(tmp_path, "pass", monkeypatch, end=f"{call} = {function}")
    monkeypatch.setattr(learner_calls, "ANSWER_SECONDS", 2.0)
    with town(tmp_path, learner="bad", step_timeout=2.0, batch_size=0, learner_options={}) as home:

        def use() -> None:
            home.train()
            home.scores()

        with pytest.raises(FederationError, match="learner bad") as error:
            use()
        assert words in str(error.value)
        assert "secret" not in str(error.value)
        # The services go on.
        home.train(learner="linear")


@pytest.mark.parametrize("how", [*_WRONG, "answers wrongly"])
def test_a_model_that_its_learner_cant_read_any_more_is_refused_and_the_next_one_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    lay_out_bad(tmp_path, "pass", monkeypatch)
    monkeypatch.setattr(learner_calls, "ANSWER_SECONDS", 2.0)
    with town(tmp_path, learner="bad", learner_options={}) as home:
        home.train()
        function = _WRONG.get(how, ("lambda *args: 'secret'", ""))[0]
        exec(f"Own.of = {function}", vars(sys.modules["bad_learner"]))  # noqa: S102 - a fault from the table above
        home.restart(*home.names)
        with pytest.raises(FederationError, match="learner bad") as error:
            home.scores()
        assert "secret" not in str(error.value)
        home.train(learner="linear")
        home.scores()


@pytest.mark.parametrize(
    "call", ["join", *(pytest.param(one, marks=pytest.mark.thorough) for one in ("tells", "link"))]
)
def test_a_learner_that_hangs_keeps_the_coordinator_from_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    lay_out_bad(tmp_path, "pass", monkeypatch, end=f"Bad.{call} = hang")
    monkeypatch.setattr(learner_calls, "ANSWER_SECONDS", 3.0)
    with town(tmp_path, learner="bad", step_timeout=3.0, batch_size=0, learner_options={}) as home:
        plan, other = home.settings.plan().changed(learner="linear"), Identity(Role.ACTIVE, "other")
        training = home.executor.submit(home.train)
        assert sys.modules["bad_learner"].BEGUN.wait(30)
        session = home.sessions.open(other, plan, 2, ("passive",))
        assert home.sessions.terms(other, session).plan == plan
        assert not training.done()
        with pytest.raises(FederationError, match="learner bad takes longer than the 3 s"):
            training.result()


@pytest.mark.parametrize("what", ["raise ValueError('secret')", "raise RuntimeError('secret')", "hang()"])
def test_a_learner_that_cant_be_made_is_refused_without_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Who proposes it reads its words; another party, in whose process they came up, reads its name."""
    lay_out_bad(tmp_path, "pass", monkeypatch)
    monkeypatch.setattr(learner_calls, "ANSWER_SECONDS", 0.5)
    message = SMALL_PLAN.changed(learner="bad").to_message()
    exec(f"def made(self):\n    {what}\nBad.__init__ = made", vars(sys.modules["bad_learner"]))  # noqa: S102
    with pytest.raises(FederationError, match=r"bad (can't be used with these options here|takes longer)") as error:
        TrainingPlan.from_message(message)
    assert "secret" not in str(error.value)
    with pytest.raises(FederationError, match="secret" if "secret" in what else "takes longer"):
        SMALL_PLAN.changed(learner="bad").check()


def test_who_isnt_to_send_is_waited_for_by_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One way, as the backward pass of a first layer: the label party sends, and all read sums of their own columns."""
    asking = "if self.own.labels is None:\n            self.weights -= 0.1 * (yield Ask())\n            return"
    lay_out_bad(tmp_path, asking, monkeypatch, "active")
    problem = random_problem(parties=3)
    with wired(problem, SMALL_PLAN.changed(learner="bad", epochs=1), timeout=5) as trainings:
        for training in trainings.values():
            training.half.weights = training.half.weights + 1.0
        weights = run_together(trainings, 1)
    assert all(np.abs(one - 1.0).max() > 1e-3 for one in weights)


def test_a_learner_that_isnt_here_is_refused_with_those_that_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SettingsError, match=r"Unknown learner 'least_squares'\. Known: boosted_trees, linear, network"):
        load_settings(learner="least_squares")
    install("adding-a-learner.md", "least_squares", tmp_path, monkeypatch)
    assert registry.names() == ("boosted_trees", "installed", "least_squares", "linear", "network")
    with pytest.raises(SettingsError, match=r"least_squares can't take rat\. Its options: rate\."):
        load_settings(learner="least_squares", learner_options={"rat": 1.0})
    with pytest.raises(SettingsError, match="learning_rate is of learner=linear: give least_squares its own"):
        load_settings(learner="least_squares", learning_rate=0.1)


def test_a_learner_forwards_once_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other products under the same mask would show the label party what their difference is."""
    pytest.importorskip("torch")
    step = NetworkHalf.step

    def twice(half: NetworkHalf, batch: IntArray) -> Step:
        yield Forward(half.weights)
        yield from step(half, batch)

    monkeypatch.setattr(NetworkHalf, "step", twice)
    with (
        town(tmp_path, learner="network", learner_options={"backward": "plain"}) as home,
        pytest.raises(FederationError, match="learner network forwards more than once in a step"),
    ):
        home.train()


def test_a_label_party_without_torch_is_told_before_anything_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vfl.learning.network.top", None)
    with town(tmp_path, learner="network", learner_options={"backward": "plain"}) as home:
        with pytest.raises(FederationError, match=r"trains a network with torch: pip install 'plumbline\[lab\]'"):
            home.train()
        assert home.passive()._session is None
