"""Training on shared weights where messages hold anything: it goes on, with as many products and bytes as ever.

Servers, links and certificates are real; every message of a kind has the agreed size, and content of the test's own.
"""

import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.common.agreement import Agreement, TrainingPlan
from services.common.certificates import create_federation_certificates
from services.common.identity import Identity, role_of
from services.exchange.peer import Peer
from services.exchange.vectors import WireVector
from services.protocols.first_layer.layer_steps import LayerSteps
from services.protocols.shared.opening import validates_on_shares
from services.protocols.shared.share_messages import Kind
from services.protocols.shared.shared_serving import SharedPart
from services.protocols.shared.shared_steps import SharedSteps
from tests.harness.shared_layers import LAYER_PLAN, wired_layers
from tests.harness.shared_sessions import SHARED_PLAN, SharedProblem
from tests.harness.shared_wiring import Exchanges, over_mutual_tls, wired_shares
from tests.harness.sides import do_step
from vfl.crypto import Engine, PublicKey, to_bytes
from vfl.crypto.kernels import ProductTask

Content = Callable[[PublicKey | None, WireVector], bytes]
ONE_EPOCH = SHARED_PLAN.changed(protocol="shared", epochs=1)
# Of a linear model two parties can validate; of three each hands on what products leave it with. A network's are three.
PLANS = {
    "two": ONE_EPOCH.changed(validation_fraction=0.4, patience=1),
    "three": ONE_EPOCH,
    "network": LAYER_PLAN.changed(epochs=1, validation_fraction=0.4, patience=1),
}
OF_VALIDATION = {Kind.VALIDATION, Kind.PADS, Kind.DIFFERENCES, Kind.CROSSED, Kind.WORD}
OF_PADS = {Kind.WEIGHT_PADS, Kind.WEIGHT_DIFFERENCES, Kind.SIGNAL_PADS, Kind.SIGNAL_DIFFERENCES}
OF_NETWORKS = OF_PADS | {Kind.FORWARD, Kind.HANDED, Kind.BACKWARD, Kind.FROZEN}
# Of any session, whatever becomes of its weights; in an order that all workers have.
OF_STEPS: dict[str, list[Kind]] = {
    "two": [kind for kind in Kind if kind not in OF_PADS | {Kind.HANDED}],
    "three": [kind for kind in Kind if kind not in OF_PADS | OF_VALIDATION],
    "network": [kind for kind in Kind if kind in OF_NETWORKS],
}


def drawn(key: PublicKey | None, vector: WireVector) -> bytes:
    """Any ciphertexts, or any residues."""
    if key is None:
        return secrets.token_bytes(len(vector.data))
    return to_bytes([1 + secrets.randbelow(key.n_squared - 1) for _ in range(vector.count)], vector.width)


def overflowing(key: PublicKey | None, vector: WireVector) -> bytes:
    """Encryptions of n - 1, which fills all slots, or the largest residues and more."""
    if key is None:
        return b"\xff" * len(vector.data)
    return to_bytes([key.raw_encrypt(key.n - 1, 1 + secrets.randbelow(key.n - 1))] * vector.count, vector.width)


class Session:
    """One training, and what it took.

    Attributes:
        sent: how many messages of each kind, from whom to whom, and of how many bytes.
        products: how many encrypted products of each shape.
        ends: what every party is left with.
    """

    def __init__(self, certificates: Path, plan: TrainingPlan, content: Content, kinds: set[Kind]) -> None:
        if plan is PLANS["network"]:
            pytest.importorskip("torch")
        self.sent, self.products = Counter[Any](), Counter[Any]()
        columns = (3, 2) if plan.patience and not plan.family.spec.forwards else (3, 2, 1)
        problem = SharedProblem.random(columns=columns, rows=30)
        product, count = Engine.product, self.products.update

        def counted(engine: Engine, ciphertexts: Sequence[int], task: ProductTask, modulus: int) -> list[int]:
            count([(len(ciphertexts), task.entries.shape)])
            return product(engine, ciphertexts, task, modulus)

        with over_mutual_tls(certificates) as linked, pytest.MonkeyPatch.context() as patch:
            patch.setattr(Engine, "product", counted)

            def peer(sender: str, receiver: str, exchanges: Exchanges) -> Peer:
                link = linked(sender, receiver, exchanges)
                send = link.send

                def instead(session_id: str, kind: Kind, step: int, vector: WireVector) -> None:
                    self.sent[kind, sender, receiver, len(vector.data)] += 1
                    if kind in kinds:
                        key = exchanges[sender]._key_of(kind, sender, receiver)
                        vector = replace(vector, data=content(key, vector))
                    send(session_id, kind, step, vector)

                vars(link)["send"] = instead
                return link

            make: Any = wired_layers if plan.family.spec.forwards else wired_shares
            with make(problem, plan, peer=peer) as wired, ThreadPoolExecutor(len(columns)) as threads:
                for one in wired.values():
                    one.show_public_key()
                running = [threads.submit(_run, one, problem.agreement(plan)) for one in wired.values()]
                self.ends = [done.result(60) for done in running]


def _run(party: SharedSteps | LayerSteps, agreement: Agreement) -> Any:
    party.begin_epoch()
    for step, batch in enumerate(party.schedule.epoch(0)):
        do_step(party, step, batch)
    if validates_on_shares(agreement):
        loss = party.validate(party.schedule.steps_per_epoch)
        assert loss is None or np.isfinite(loss)
    part = party.finish()
    return party.half.weights if part is None else part


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certs")
    names = ["coordinator", "active", "passive-1", "passive-2"]
    create_federation_certificates(folder, [Identity(role_of(name), name) for name in names])
    return folder


def check(certificates: Path, session: str, serving: str, content: Content, kinds: set[Kind]) -> None:
    """Whatever all parties send in messages of these kinds, the session ends as an honest one does."""
    plan = PLANS[session].changed(serving=serving)
    honest = Session(certificates, plan, content, set())
    at_the_end = {Kind.OPENED, Kind.FROZEN} - {Kind.FROZEN if serving == "shared" else Kind.OPENED}
    assert {kind for kind, *_ in honest.sent} == set(OF_STEPS[session]) - at_the_end
    found = Session(certificates, plan, content, kinds)
    assert found.sent == honest.sent
    assert found.products == honest.products
    assert len(found.ends) == (2 if session == "two" else 3)
    assert all(isinstance(one, SharedPart) or np.isfinite(one).all() for one in found.ends)


@pytest.mark.parametrize(
    ("session", "serving", "content"),
    [
        ("two", "opened", drawn),
        ("two", "shared", overflowing),
        ("three", "shared", drawn),
        ("three", "opened", overflowing),
        ("network", "shared", drawn),
        ("network", "shared", overflowing),
    ],
)
def test_whatever_all_messages_hold_the_session_goes_on_alike(
    certificates: Path, session: str, serving: str, content: Content
) -> None:
    check(certificates, session, serving, content, set(Kind))


@pytest.mark.hostile_long
@pytest.mark.parametrize("content", [drawn, overflowing])
@pytest.mark.parametrize(
    ("session", "serving", "kind"),
    [
        (session, serving, kind)
        for session, kinds in OF_STEPS.items()
        for serving in (["shared"] if session == "network" else ["opened", "shared"])
        for kind in kinds
    ],
)
def test_whatever_messages_of_one_kind_hold_the_session_goes_on_alike(
    certificates: Path, session: str, kind: Kind, serving: str, content: Content
) -> None:
    check(certificates, session, serving, content, {kind})
