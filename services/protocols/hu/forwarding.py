"""A party's part in the forward pass of a learner that forwards its first layer. Knows no network.

passive party   Z = X W, under a mask that cancels in the sum of all parties'     products ──>   label party
label party     Z = X W + the sum of what came: no single party's where several forward
"""

from collections.abc import Mapping
from concurrent.futures import Executor, Future, wait

from services.ciphers.hidden_layer import hidden_vector, sum_of_hidden
from services.common.agreement import Agreement
from services.common.errors import refusals_of
from services.common.meters import StageTimer
from services.exchange.peer import Peer
from services.exchange.tape import Tape
from services.protocols.hu.gradient_exchange import HIDDEN, GradientExchange, StepRoles
from vfl.arrays import FloatArray
from vfl.crypto.ciphers import Plain
from vfl.crypto.pairwise_masks import PairwiseMasks


def step_roles(agreement: Agreement, name: str) -> StepRoles:
    """Say who sends what to this party in a step."""
    spec, active = agreement.plan.family.spec, agreement.active.name
    sends = name in agreement.senders
    if not spec.forwards:
        return StepRoles(agreement.senders, sends=sends)
    passive_names = tuple(party.name for party in agreement.peers_of(name) if party != agreement.active)
    in_the_clear = isinstance(agreement.plan.encryption, Plain)
    if name == active:
        return StepRoles(agreement.senders, passive_names, agreement.outputs, reads_directly=in_the_clear, sends=sends)
    return StepRoles(agreement.senders, masked_with=passive_names, reads_directly=in_the_clear, sends=sends)


class Forwarding:
    """Answers a half's ``Forward``, step by step, where its learner forwards.

    Attributes:
        units: h, columns of the products.
        mask_key: what the other parties that forward agree on masks with; empty where no other does.
    """

    def __init__(self, agreement: Agreement, name: str, peers: Mapping[str, Peer], executor: Executor) -> None:
        self._name, self._session_id, self._executor = name, agreement.session_id, executor
        self._is_label_party = name == agreement.active.name
        self._label_party = peers.get(agreement.active.name)
        self._others = [party.name for party in agreement.peers_of(name) if party != agreement.active]
        self._masks = PairwiseMasks(name, agreement.session_id)
        self._has_agreed = False
        self._sending: list[Future[None]] = []
        self.units = agreement.outputs
        self.mask_key = self._masks.public_key if self._others and not self._is_label_party else b""

    def products(
        self,
        step: int,
        own_products: FloatArray,
        exchange: GradientExchange,
        timer: StageTimer,
        tape: Tape | None,
    ) -> tuple[FloatArray, list[Future[None]]]:
        """Give what a half's ``Forward`` is answered with, (s, h), and what is still on its way to the label party.

        Raises:
            PeerVanished: where another party's products don't come.
            Diverged: for products that don't fit the fixed point.
            InvalidMessage: for another party's key that no mask can follow from.
        """
        if self._is_label_party:
            with timer.stage("wait"):
                theirs = sum_of_hidden(exchange.hidden(step), len(own_products))
            if tape is not None:
                tape.forwarded(step, theirs)
            return own_products + theirs, []
        if not self._has_agreed:
            with refusals_of(ValueError):
                self._masks.agree({name: exchange.mask_keys[name] for name in self._others})
            self._has_agreed = True
        with timer.stage("encrypt"):
            vector = hidden_vector(self._name, own_products, self._masks.mask(step, own_products.shape))
        assert self._label_party is not None  # noqa: S101 - a passive party has it among its peers
        self._sending = [self._executor.submit(self._label_party.send, self._session_id, HIDDEN, step, vector)]
        return own_products, self._sending

    def settle(self) -> None:
        """Wait until nothing is on its way: it is under no key, and could be taken for the step's next try."""
        wait(self._sending)
