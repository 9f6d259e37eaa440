"""Hosts the attacks that a party can mount on training, with what its messages told it only."""

import json
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from attacks import Json, PassiveMoments, TrainingResult, TrainingView
from attacks.base import refusal
from attacks.solving.told_bins import HeardTrees
from attacks.training.recovered_labels import UNRESOLVED
from attacks.training_attack import (
    ChosenShares,
    OtherFeatures,
    ReplacingAttack,
    RequestTerms,
    SessionTerms,
    SharingTerms,
    TrainingAttack,
    listen,
    listens,
    replaces_features,
    replaces_messages,
    replaces_requests,
    replaces_shares,
)
from attacks.training_views import Equations, Forwarded, KnownRecords, OwnStep
from services.adversary.listening_side import listening
from services.adversary.transcript import Transcript
from services.ciphers.arithmetic import Arithmetic, EngineArithmetic, messages_by
from services.ciphers.cipher import Cipher, PaillierCipher
from services.ciphers.formats import CipherFormats
from services.common.agreement import Agreement, TrainingPlan
from services.common.lost_records import LostRecords
from services.common.opening_options import opening_options
from services.common.run_folder import RunFolder
from services.common.run_records import DONE, FAILED, NOT_APPLICABLE, AttackStatus, TrainingAttackOutcome
from services.party.context import TellsAttack, nobody_watches
from services.party.party_training import PartyTraining
from services.party.side import Side, SideSetting
from services.party.training_means import MakesCipher
from vfl.arrays import FloatArray, IntArray
from vfl.crypto.ciphers import Paillier
from vfl.data import Table
from vfl.data.id_array import IdArray, IdIndex
from vfl.learning.learner import OwnRequest

_log = logging.getLogger(__name__)

T = TypeVar("T")
# Of records by steps, each with its number: 400 MB of a schedule that the active party proposes.
_MOST_VISITS = 50_000_000
# What is kept of earlier sessions: 400 MB of their matrices.
_MOST_SESSIONS, _MOST_KEPT = 8, 50_000_000
# What the service itself says of an attack.
_RESERVED = frozenset(one.name for one in fields(TrainingAttackOutcome)) - {"facts", "reason"}


class TrainingAdversary:
    """Mounts a party's attacks on training in its own service.

    An attack that can't be mounted is reported as not applicable, and the party trains honestly. Without any attack the
    party's side is the honest one itself.
    """

    def __init__(
        self,
        attacks: Mapping[str, TrainingAttack],
        name: str,
        folder: Path | None,
        lost: LostRecords | None = None,
        arithmetic: Arithmetic | None = None,
        known: Table | None = None,
        moments: PassiveMoments | None = None,
    ) -> None:
        """Mount attacks.

        Args:
            attacks: the attacks, by name.
            name: the party's.
            folder: where the outcomes are written. None writes nothing.
            lost: where it is noted what could not be written.
            arithmetic: computes messages that an attack replaces; by default the best kernel there is, on one core.
            known: what its adversary knows of records: the label party's the other parties' columns, a passive party's
                one column, the class by number.
            moments: statistics of the other parties' columns that the label party's adversary knows.

        Raises:
            ValueError: for two attacks that both replace messages, features or shares.
        """
        check_replaced(attacks)
        self._lost = lost or LostRecords()
        self._arithmetic = arithmetic or EngineArithmetic()
        self._mounted, self._known, self._moments = dict(attacks), known, moments
        self.is_idle = not self._mounted
        self._name = name
        self._folder = RunFolder(folder) if folder is not None else None
        self._transcript = Transcript()
        self._earlier: deque[TrainingView] = deque(maxlen=_MOST_SESSIONS)
        # Of the session at work: how each attack comes to its result, or why it can't be mounted.
        self._conclude: dict[str, Callable[[TrainingView], TrainingResult]] = {}
        self._refused: dict[str, Exception | SystemExit] = {}
        # Where weights are shared: what is encrypted in place of features, or added to shares.
        self._others: dict[str, OtherFeatures | ChosenShares] = {}

    def seat(self, setting: SideSetting, make: Callable[[SideSetting], Side], ids: IdArray | None = None) -> Side:
        """Make the side that this party trains with: an honest one without attacks; ``ids`` as in ``attack``."""
        if not self._mounted:
            return make(setting)
        self._begin(setting.agreement)
        means = replace(
            setting.means,
            cipher=partial(self._cipher, honest=setting.means.cipher, ids=ids),
            tape=self._transcript,
            others=partial(self._other_columns, setting),
            chosen=self._added_shares(setting),
        )
        return listening(
            setting, make(replace(setting, means=means)), self._transcript, self._requests(setting.agreement)
        )

    def _cipher(self, agreement: Agreement, name: str, *, honest: MakesCipher, ids: IdArray | None) -> Cipher:
        """Make the cipher of Protocol 1: an attack's, or the honest one."""

        def replaced(label: str, attack: ReplacingAttack) -> Cipher:
            messages = partial(messages_by, self._arithmetic, agreement, name)
            records = self._known_records(ids) if ids is not None and name == agreement.active.name else None
            chosen = attack.messages(_terms(agreement, name, records), messages)
            cipher = PaillierCipher(agreement, name, chosen)
            self._conclude[label] = chosen.result
            return cipher

        return self._replacement(replaces_messages, replaced) or honest(agreement, name)

    def _begin(self, agreement: Agreement) -> None:
        """Forget the session before, and refuse the attacks that can't be on this one."""
        trees = HeardTrees(agreement.active.aligned_rows)
        self._transcript = Transcript(agreement.party(self._name).feature_count, trees=trees)
        self._conclude, self._refused, self._others = {}, {}, {}
        for label, attack in self._mounted.items():
            if reason := obstacle(label, attack, agreement.plan):
                self._refused[label] = ValueError(reason)
            elif listens(attack):
                self._conclude[label] = partial(listen, attack)

    def _other_columns(self, setting: SideSetting, cells: FloatArray) -> OtherFeatures | None:
        """Make what this party encrypts in place of its columns where weights are shared; None for these."""

        def coded(label: str, attack: Any) -> OtherFeatures:
            terms = sharing_terms(setting.agreement, cells, setting.name)
            features = self._others[label] = _CheckedFeatures(attack.code(terms), cells.shape)
            return features

        return self._replacement(replaces_features, coded)

    def _requests(self, agreement: Agreement) -> "_CheckedRequests | None":
        """Make what this party asks in place of its learner's own requests; None for nothing else."""
        terms = RequestTerms(
            tuple(party.name for party in agreement.parties),
            agreement.plan.key_bits if agreement.plan.is_encrypted else 0,
        )

        def asking(label: str, attack: Any) -> _CheckedRequests:
            requests = _CheckedRequests(attack.ask(terms))
            self._conclude[label] = requests.result
            return requests

        return self._replacement(replaces_requests, asking)

    def _added_shares(self, setting: SideSetting) -> ChosenShares | None:
        """Make what this party adds to its shares of others' first layers; None for nothing."""

        def choosing(label: str, attack: Any) -> ChosenShares:
            terms = sharing_terms(setting.agreement, setting.gridded.values, setting.name)
            shares = self._others[label] = _CheckedShares(attack.choose(terms))
            return shares

        return self._replacement(replaces_shares, choosing)

    def _replacement(self, replaces: Callable[[TrainingAttack], bool], make: Callable[[str, Any], T]) -> T | None:
        """Have the attack that replaces something make it; what it raises is reported when training is over."""
        replacement: T | None = None
        for label, attack in self._mounted.items():
            if replaces(attack) and label not in self._refused:
                try:
                    replacement = make(label, attack)
                except (Exception, SystemExit) as error:  # a guest's
                    self._refused[label] = error
        return replacement

    def attack(
        self,
        training: PartyTraining,
        tell: TellsAttack = nobody_watches,
        *,
        records: IntArray | None = None,
        ids: IdArray | None = None,
    ) -> None:
        """Run every mounted attack on the transcript, once training is over, and write what it found.

        Args:
            training: this party's part of it.
            tell: is told how far this has come, before each attack and behind the last.
            records: (aligned rows,), which row of the own table each is: attacks then get earlier sessions as well.
            ids: of the aligned rows in order, by which records that are known beforehand are found; None for none.
        """
        outcomes = []
        view: TrainingView | None = None
        for number, name in enumerate(self._mounted):
            tell(number, len(self._mounted), name)
            start = time.perf_counter()
            facts: dict[str, Any] = {}
            status: AttackStatus = DONE
            reason = None
            try:
                if name in self._refused:
                    raise self._refused[name]
                if name in self._others:
                    facts = self._found(name, self._others[name].result())
                else:
                    view = view or self._view(training, records, ids)
                    facts = self._found(name, self._conclude[name](view), view.known_labels)
                reason = None if (why := facts.pop("reason", None)) is None else str(why)
                _log.info("Attack %s has run.", name)
            except ValueError as error:
                status, reason = NOT_APPLICABLE, str(error)
                _log.warning("Attack %s is not applicable: %s", name, error)
            except (Exception, SystemExit) as error:  # a guest's bugs are reported and the federation goes on
                status, reason = FAILED, f"{name} failed with {type(error).__name__}: {error}"
                _log.exception("Attack %s failed.", name)
            outcomes.append(
                TrainingAttackOutcome(
                    attack=name,
                    party=self._name,
                    kind=facts.pop("kind", None),
                    facts=facts,
                    status=status,
                    reason=reason,
                    conduct=self._mounted[name].spec.conduct,
                    seconds=time.perf_counter() - start,
                )
            )
        tell(len(self._mounted), len(self._mounted), "")
        for conduct in ("replaces_messages", "replaces_requests"):
            if any(one.conduct == conduct and one.status == DONE for one in outcomes):
                # Who only listens beside has heard the answers that replaced messages asked for.
                outcomes = [replace(one, conduct=conduct) for one in outcomes]
        if view is not None and records is not None:
            self._remember(view)
        if self._mounted and self._folder is not None:
            with self._lost.noting("What attacks on training found"):
                self._folder.write_training_outcomes(self._name, outcomes)

    def _found(self, attack: str, result: TrainingResult, known_labels: IntArray | None = None) -> dict[str, Json]:
        """Write a result's arrays, with whose labels were ``known_labels``, and return its kind and facts."""
        facts = dict(result.facts())
        if reserved := _RESERVED & set(facts):
            raise TypeError(f"its facts can't be called {', '.join(sorted(reserved))}: these the service writes")
        json.dumps(facts)  # raises TypeError now for what couldn't be written later, with all other outcomes
        arrays = result.arrays()
        if result.kind == "labels" and known_labels is not None:
            arrays = {**arrays, "known": np.flatnonzero(known_labels >= 0)}
        if self._folder is not None:
            with self._lost.noting(f"What {attack} found"):
                self._folder.write_training_arrays(self._name, attack, arrays)
        return {"kind": result.kind, **facts}

    def _remember(self, view: TrainingView) -> None:
        """Keep what this session showed for later ones; the oldest goes first, and what alone is too much at once."""
        self._earlier.append(replace(view, earlier=()))
        while sum(_numbers(one) for one in self._earlier) > _MOST_KEPT:
            self._earlier.popleft()

    def _view(self, training: PartyTraining, records: IntArray | None, ids: IdArray | None) -> TrainingView:
        agreement, plan, model = training.agreement, training.agreement.plan, training.model
        step_size = plan.encryption.residual_step
        steps, equations = self._of_shares(training) if self._transcript.shares_of_sums else self._of_answers(training)
        is_active = self._name == agreement.active.name
        rows = np.arange(agreement.active.aligned_rows)
        return TrainingView(
            role="active" if is_active else "passive",
            features=model.features_of(rows),
            steps=tuple(steps),
            equations=tuple(equations),
            peer_features={peer.name: peer.feature_count for peer in agreement.peers_of(self._name)},
            label_party=None if is_active else agreement.active.name,
            learner=plan.family,
            classes=agreement.classes,
            batch_size=plan.batch_size,
            labels=model.labels_of(rows) if is_active else None,
            share_step=step_size,
            steps_per_epoch=training.schedule.steps_per_epoch,
            records=records,
            earlier=() if records is None else tuple(self._earlier),
            forwarded=tuple(self._of_forwarded(agreement)),
            known_labels=None if is_active or ids is None else self._known_labels(ids),
            known_records=self._known_records(ids) if is_active and ids is not None else None,
            moments=self._moments if is_active else None,
            bin_sums=self._transcript.trees.bin_sums,
            told_columns=self._transcript.trees.columns,
            leaves=self._transcript.trees.reached,
            knows_own_weights=agreement.serving.tells_owners,
        )

    def _of_forwarded(self, agreement: Agreement) -> Iterator[Forwarded]:
        """Collect what the label party of a learner that forwards was sent and has sent, step by step."""
        batches = _batches(agreement) if self._transcript.products else ()
        for step, products in self._transcript.products.items():
            if step in self._transcript.shares:  # the last one of a training that failed is not
                yield Forwarded(step, batches[step], products, self._transcript.shares[step])

    def _known_labels(self, ids: IdArray) -> IntArray | None:
        """Find the known classes of aligned records, -1 elsewhere; None for none."""
        if self._known is None:
            return None
        rows, labels = IdIndex(ids).rows(self._known.ids), np.full(len(ids), UNRESOLVED, dtype=np.int64)
        labels[rows[rows >= 0]] = self._known.features[rows >= 0, 0].astype(np.int64)
        return labels if (rows >= 0).any() else None

    def _known_records(self, ids: IdArray) -> KnownRecords | None:
        """Find those of the records that are known beforehand which are aligned; None for none."""
        if self._known is None:
            return None
        rows = IdIndex(ids).rows(self._known.ids)
        return KnownRecords(rows[rows >= 0], self._known.features[rows >= 0]) if (rows >= 0).any() else None

    def _of_answers(self, training: PartyTraining) -> tuple[list[OwnStep], list[Equations]]:
        """Own shares and sums of every step, as answers told them."""
        gridded, batches = training.gridded, _batches(training.agreement)
        grid = training.side.sent_step
        steps = [
            OwnStep(step, batches[step], np.rint(share / grid) * grid if grid else share)
            for step, share in self._transcript.shares.items()
        ]
        # Of trees, where no party computes anything that it sends as it is.
        grown = sorted(self._transcript.trees.grown)
        steps += [OwnStep(step, batches[step], np.zeros((len(batches[step]), 1))) for step in grown]
        equations = [
            _in_own_units(Equations(step, peer, batches[step], matrix, sums), gridded.order, gridded.scales)
            for (step, peer), (matrix, sums) in self._transcript.answers.items()
        ]
        equations += [
            Equations(step, peer, batches[step], _identity(len(values)), values)
            for (step, peer), values in self._transcript.residuals.items()
        ]
        return steps, equations

    def _of_shares(self, training: PartyTraining) -> tuple[list[OwnStep], list[Equations]]:
        """Collect what a training on shared weights leaves an adversary to try: as if nothing were shared.

        Of every step the own part of the score is that of the opened weights, or of the share that the party is left
        with where weights stay shared, about its mean and below 1. What the party decrypted is taken for
        sums, about their mean and of such a size as sums may have, and for every peer's that sends.
        """
        agreement, model, batches = training.agreement, training.model, _batches(training.agreement)
        weights = agreement.serving.numbers(model.part, training.half)
        steps, equations = [], []
        for step, share in self._transcript.shares_of_sums.items():
            rows = batches[step]
            features = model.features_of(rows)
            steps.append(OwnStep(step, rows, features @ weights))
            sums = training.side.turn.sums(share * len(rows))
            senders = [peer.name for peer in agreement.peers_of(self._name) if peer.name in agreement.senders]
            equations += [Equations(step, peer, rows, features, sums) for peer in senders]
        return steps, equations


class _CheckedGuest:
    """What a guest has made, whose bugs end no session: it is trained on, and they are reported with all outcomes."""

    def __init__(self, guest: Any) -> None:
        self._guest = guest
        self._failure: Exception | SystemExit | None = None

    def _given(self, ask: Callable[[], T], otherwise: T) -> T:
        """Ask the guest; ``otherwise`` where it fails, and from then on."""
        try:
            return otherwise if self._failure else ask()
        except (Exception, SystemExit) as error:  # reported with its result
            self._failure = error
            return otherwise

    def result(self, *view: TrainingView) -> TrainingResult:
        """Give what the guest has recovered; raises what it has raised."""
        if self._failure is not None:
            raise self._failure
        recovered: TrainingResult = self._guest.result(*view)
        return recovered


class _CheckedFeatures(_CheckedGuest):
    """A guest's other features.

    Attributes:
        forward: (n, d), for products with weights.
        backward: (n, d), for products with residuals.
    """

    def __init__(self, guest: OtherFeatures, shape: tuple[int, ...]) -> None:
        """Take a guest's; raises ValueError for anything but finite numbers of this shape."""
        self.forward, self.backward = (_checked(one, shape) for one in (guest.forward, guest.backward))
        super().__init__(guest)

    def read(self, opened: FloatArray) -> FloatArray:
        """Have the guest read opened weights; where it fails, the party goes on with these."""
        return self._given(lambda: _checked(self._guest.read(opened.copy()), opened.shape), opened)


class _CheckedShares(_CheckedGuest):
    """A guest's choice of shares."""

    def added(self, step: int, peer: str) -> FloatArray | None:
        """Give what the guest adds; nothing once it has failed."""
        added: FloatArray | None = self._given(lambda: self._guest.added(step, peer), None)
        return added

    def read(self, step: int, products: FloatArray) -> FloatArray:
        """Have the guest read products; where it fails, the party goes on with these."""
        return self._given(lambda: _checked(self._guest.read(step, products.copy()), products.shape), products)


class _CheckedRequests(_CheckedGuest):
    """A guest's other requests."""

    def asked(self, step: int, request: OwnRequest) -> OwnRequest:
        """Give what the guest asks; the learner's own once it has failed."""
        return self._given(lambda: self._guest.asked(step, request), request)

    def answered(self, step: int, request: OwnRequest, answer: Any) -> Any:
        """Give what the guest makes of an answer; where it fails, the answer."""
        return self._given(lambda: self._guest.answered(step, request, answer), answer)


def _checked(values: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape or not np.isfinite(array).all():
        raise ValueError(f"Expected finite numbers of shape {shape}.")
    return array


def check_replaced(attacks: Mapping[str, TrainingAttack]) -> None:
    """Refuse attacks of one party of which two replace the same; raises ValueError.

    Args:
        attacks: the attacks, by label.
    """
    replacing_what = (
        ("messages", replaces_messages),
        ("features", replaces_features),
        ("shares", replaces_shares),
        ("requests", replaces_requests),
    )
    for what, replaces in replacing_what:
        replacing = [one for one, attack in attacks.items() if replaces(attack)]
        if len(replacing) > 1:
            raise ValueError(f"{' and '.join(replacing)} both replace {what}: mount one of them.")


def obstacle(name: str, attack: TrainingAttack, plan: TrainingPlan) -> str:
    """Say in a sentence why an attack on training can't be on sessions of this plan; empty where nothing shows.

    Args:
        name: its label.
        attack: the attack.
        plan: the session's; how many epochs and which batches doesn't matter.
    """
    if not attack.spec.is_on(plan.learner):
        return refusal(attack, plan.learner)
    if reason := plan.training.conduct_refusal(name, attack.spec.conduct):
        return reason
    if replaces_messages(attack) and not isinstance(plan.encryption, Paillier):
        return f"{name} needs ciphertexts: cipher={Paillier.name}."
    return ""


def _numbers(view: TrainingView) -> int:
    return sum(one.matrix.size for one in view.equations)


def _in_own_units(equations: Equations, order: IntArray, scales: FloatArray) -> Equations:
    """Equations of whole numbers in wire order, as equations of the party's features in its own order.

    Columns beyond its own are brought near 1 by powers of two, which round nothing.

    Args:
        equations: as the messages read them, (s, D) whole numbers.
        order: (d,) which feature each of the first columns is.
        scales: (d,) what one step of each feature is worth, in the party's own order.
    """
    width, matrix, sums = len(order), equations.matrix.copy(), equations.sums.copy()
    matrix[:, order], sums[order] = equations.matrix[:, :width], equations.sums[:width]
    beyond = 2.0 ** -np.ceil(np.log2(np.maximum(np.abs(matrix[:, width:]).max(axis=0, initial=1.0), 1.0)))
    steps = np.concatenate([scales, beyond])
    return replace(equations, matrix=matrix * steps, sums=sums * steps[:, None], steps=steps)


def _terms(agreement: Agreement, party: str, known_records: KnownRecords | None) -> SessionTerms:
    """Describe a session's terms as an attack of this party knows them. Raises ValueError where packing can't work."""
    is_active = party == agreement.active.name
    return SessionTerms(
        party=party,
        role="active" if is_active else "passive",
        features=agreement.party(party).feature_count,
        peers={peer.name: peer.feature_count for peer in agreement.peers_of(party)},
        label_party=None if is_active else agreement.active.name,
        batches=_batches(agreement),
        batch_size=agreement.plan.batch_size,
        key_bits=agreement.plan.key_bits,
        formats=CipherFormats(agreement).messages_of(party),
        known=known_records,
    )


@lru_cache(maxsize=4)
def _identity(rows: int) -> FloatArray:
    """Make one identity for all steps of as many rows: together they would take more than all that was read."""
    return np.eye(rows)


def sharing_terms(agreement: Agreement, features: FloatArray, name: str) -> SharingTerms:
    """Describe the terms of a session on shared weights; raises ValueError for more records than an attack can hold."""
    plan = agreement.plan
    opening = opening_options(agreement.plan.protocol_options)
    return SharingTerms(
        features=features,
        classes=agreement.classes,
        outputs=agreement.residual_columns,
        batches=_batches(agreement),
        learner=plan.family,
        opening_bits=opening.opening_bits,
        opening_fraction_bits=opening.fraction_bits,
        feature_fraction_bits=plan.feature_fraction_bits,
        peers={peer.name: peer.feature_count for peer in agreement.peers_of(name)},
    )


def _batches(agreement: Agreement) -> tuple[IntArray, ...]:
    """Rows of every planned step, from the public schedule."""
    epochs = agreement.plan.epochs
    if epochs * agreement.active.aligned_rows > _MOST_VISITS:
        raise ValueError(f"{epochs} epochs of so many records are more than an attack on training can hold.")
    return tuple(agreement.plan.training.batches(agreement))
