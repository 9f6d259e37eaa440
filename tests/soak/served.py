"""What a federation must answer and must not forget, told by the state folders of all its parties."""

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy.special import expit, softmax

from plumbline.processes import LocalProcesses
from services.common.identity import Role, role_of
from services.common.state_folder import read_state
from services.exchange.opening_ledger import LEDGER, opened_in
from services.party.equation_count import EQUATIONS, spent_in
from services.party.features import load_party_data
from services.party.model_file import KeptModel, summary_of, unpacked
from services.party.served_models import CANDIDATE, SERVED
from tests.harness.shared_wiring import joined_weights
from vfl.arrays import FloatArray

# Of a score: sums of products in another order.
TOLERANCE = 1e-12


class Broken(Exception):
    """The federation broke a promise; the text says which."""


@dataclass
class Answers:
    """Compares scores with those of the models that the parties keep.

    Attributes:
        processes: the federation's; their state is read while they run.
        checked: how many scores of records were compared.
    """

    processes: LocalProcesses
    checked: int = 0
    _expected: dict[str, dict[str, FloatArray]] = field(default_factory=dict)
    _bits: dict[str, dict[str, bytes]] = field(default_factory=lambda: defaultdict(dict))

    def __post_init__(self) -> None:
        """Read the tables, as the parties do."""
        parties = {name: one for name, one in self.processes.settings.items() if role_of(name) is not Role.COORDINATOR}
        self._data = {
            name: load_party_data(one, with_bias=role_of(name) is Role.ACTIVE) for name, one in parties.items()
        }

    @property
    def ids(self) -> list[str]:
        """Of the active party's records, those without a score among them."""
        return list(self._data[Role.ACTIVE].ids)

    def served(self) -> str:
        """The session whose model the active party serves, by its state; its scores are known from here on."""
        while True:
            content = read_state(self.processes.state(Role.ACTIVE), SERVED)
            if content is None:
                raise Broken("The active party's state has no served model any more.")
            session = summary_of(content).session_id
            if session in self._expected:
                return session
            models = self._models(session)
            if models.keys() == self._data.keys():
                self._expected[session] = _scores_of(models, self._data[Role.ACTIVE].ids)
                return session
            # Replaced meanwhile, or lost.
            if read_state(self.processes.state(Role.ACTIVE), SERVED) == content:
                missing = ", ".join(sorted(self._data.keys() - models.keys()))
                raise Broken(f"active serves session {session}, and {missing} has lost its model.")

    def check(self, scores: pd.DataFrame, before: str, after: str) -> None:
        """Compare scores with the model that was served when they were asked for, or the one after it.

        Raises:
            Broken: for a score of neither, for other bits than the same model's before, and for a record that has
                a score or none, where that model says otherwise.
        """
        found = {str(one): row for one, row in zip(scores.index, scores.drop(columns="error").to_numpy(), strict=True)}
        refused = [session for session in dict.fromkeys((before, after)) if self._differs(found, session)]
        if len(refused) == len({before, after}):
            raise Broken(f"Scores are not those of session {after}: {self._differs(found, after)}.")
        self.checked += len(found)

    def _differs(self, found: dict[str, FloatArray], session: str) -> str:
        """How scores differ from a model's; empty where they don't."""
        expected, bits = self._expected[session], self._bits[session]
        for one, row in found.items():
            if (one in expected) != bool(np.isfinite(row).all()):
                return f"{one} has the scores {row.tolist()}, and is{'' if one in expected else ' not'} aligned"
            if one not in expected:
                continue
            if not np.abs(row - expected[one]).max() <= TOLERANCE:
                return f"{one} has the scores {row.tolist()}, expected {expected[one].tolist()}"
            if bits.setdefault(one, row.tobytes()) != row.tobytes():
                return f"{one} has other bits than before"
        return ""

    def _models(self, session: str) -> dict[str, KeptModel]:
        """The parties' parts of a session's model, of those that have one."""
        found = {}
        for name, data in self._data.items():
            for file in (SERVED, CANDIDATE, SERVED):
                content = read_state(self.processes.state(name), file)
                if content is not None and summary_of(content).session_id == session:
                    found[name] = unpacked(content, data)
                    break
        return found


def _scores_of(kept: dict[str, KeptModel], ids: object) -> dict[str, FloatArray]:
    """Scores of every aligned record by its id, in plain numbers."""
    models = {name: one.model for name, one in kept.items()}
    active = kept[Role.ACTIVE]
    if not active.model.agreement.serving.tells_owners:
        weights = joined_weights(models)
    else:
        weights = {name: one.part.arrays()["weights"] for name, one in models.items()}
    logits = sum(one.features @ weights[name] for name, one in models.items())
    assert isinstance(logits, np.ndarray)
    scores = np.hstack([expit(-logits), expit(logits)]) if logits.shape[1] == 1 else softmax(logits, axis=1)
    return dict(zip(np.asarray(ids)[active.order].tolist(), scores, strict=True))


@dataclass
class Counts:
    """What parties count over all sessions, which may grow and never shrink: forms answered, and bits opened."""

    processes: LocalProcesses
    last: dict[str, int] = field(default_factory=dict)

    def check(self) -> None:
        """Raises Broken for a count that is less than it was, or gone."""
        now = self._read()
        if lost := [
            f"{what}: {was}, now {now.get(what, 0)}" for what, was in self.last.items() if now.get(what, 0) < was
        ]:
            raise Broken(f"A count went down: {'; '.join(lost)}.")
        self.last = now

    def _read(self) -> dict[str, int]:
        found = {}
        for name in self.processes.settings:
            state = self.processes.state(name)
            if (content := read_state(state, EQUATIONS)) is not None:
                for one in spent_in(content):
                    found[f"forms of {name}'s records answered to {one.active}"] = one.most
                    found[f"records of {name} that {one.active} was answered about"] = one.records
            if (content := read_state(state, LEDGER)) is not None:
                found |= {f"bits of {owner} opened, by {name}": bits for owner, bits in opened_in(content).items()}
        return found
