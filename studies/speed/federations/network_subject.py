"""``plumbline bench network``: a step of a network's training on each encrypted rung, beside one of Protocol 1."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from services.ciphers.formats import CipherFormats
from services.common.agreement import Agreement
from services.protocols.first_layer.layer_messages import LayerSizes
from services.protocols.first_layer.layer_terms import LayerTerms
from services.protocols.shared.share_messages import Kind
from studies.speed.estimate import EstimateAsked
from studies.speed.exchange.own_exchange import warmed
from studies.speed.federations.step_subject import OwnCryptography, drawn_features
from studies.speed.machine import kernels_here
from studies.speed.repetition import WrongResult, in_turns, one_core, timed
from studies.speed.result import Cell, Progress, Result, ResultTable, Spread, columns_of, command_of, silent
from vfl.crypto import keygen
from vfl.crypto.kernels import Kernel
from vfl.crypto.sharing.padded_products import PaddedFormats, hide, kept, multiply
from vfl.crypto.sharing.shares import Integers

PROTOCOL, RUNGS = "Protocol 1, linear", ("paillier", "shared")
# Bytes of a product that is forwarded where gradients come back under a key.
_FORWARDED = 8


@dataclass(frozen=True)
class NetworksAsked:
    """What is measured.

    Attributes:
        columns: of each of two parties, real numbers of 16 bits.
        hidden: units of the first layer.
        batch: rows.
        key_bits: length of the modulus.
        repetitions: in turns.
    """

    columns: tuple[int, ...] = (12, 100)
    hidden: int = 16
    batch: int = 256
    key_bits: int = 2048
    repetitions: int = 3

    def with_columns(self, columns: Sequence[int] | None) -> Self:
        """The same with other columns, if any are given."""
        return replace(self, columns=tuple(columns)) if columns else self

    def agreements(self, columns: int) -> dict[str, Agreement]:
        """The terms of a session of two classes, by what is trained."""
        rows = 10 * self.batch
        linear = EstimateAsked(rows, 2 * columns, batch=self.batch, key_bits=self.key_bits).agreement
        plan = linear.plan.changed(learner="network", hidden=self.hidden)
        return {PROTOCOL: linear} | {rung: replace(linear, plan=plan.changed(backward=rung)) for rung in RUNGS}


def measure_networks(asked: NetworksAsked, progress: Progress = silent) -> Result:
    """Time each with every kernel. Raises WrongResult where one finds another product than integers do."""
    with one_core():
        tables = []
        for columns in asked.columns:
            progress(f"{columns} columns")
            tables.append(_steps(asked, columns))
    own = asked.columns if asked.columns != NetworksAsked.columns else ()
    words = " ".join(f"--columns {columns}" for columns in own)
    given = ("hidden", "batch", "key_bits")
    return Result("network", command_of("network", asked, ("repetitions",), given, words), tuple(tables))


class LayerCryptography:
    """Both parties of an agreement about a first layer on shared weights, without a network between them."""

    def __init__(self, agreement: Agreement, kernel: Kernel) -> None:
        """Make the label party's key, and features, weights and a backward signal of one batch."""
        self._terms, draw = LayerTerms(agreement), np.random.default_rng(0)
        _, self._key = keygen(agreement.plan.key_bits, insecure=True)
        self._engine = warmed(kernel, self._key)
        rows, passive = self._terms.batches.rows_of_step(0), self._terms.passive[0]
        found = drawn_features(CipherFormats(agreement).columns_of(passive), rows, draw)
        self._features: Integers = found.astype(np.int64).astype(np.object_)
        forward, backward = self._terms.forward, self._terms.backward
        self._weights, self._signal = (
            np.array([secrets.randbits(one.ring) for _ in range(count * one.outputs)], dtype=np.object_).reshape(
                count, one.outputs
            )
            for one, count in ((forward, self._terms.columns(passive)), (backward, rows))
        )

    def step(self) -> float:
        """Do one step's arithmetic: CPU seconds. Raises WrongResult unless shares join to the plain products."""
        return self._product(self._features, self._weights, self._terms.forward) + self._product(
            self._features.T, self._signal, self._terms.backward
        )

    def _product(self, features: Integers, values: Integers, formats: PaddedFormats) -> float:
        def shared() -> Integers:
            padded = hide(values, formats, self._key, self._engine, secrets.randbelow)
            masked = multiply(features, padded, formats, self._key.public_key, self._engine, secrets.randbelow)
            total: Integers = masked.residues + kept(
                masked.ciphertexts, len(features), formats, self._key, self._engine
            )
            return total

        seconds, found = timed(shared)
        # A slot may carry 1 into the next.
        if (np.abs((found - features @ values + 1) % (1 << formats.ring) - 1) > 1).any():
            raise WrongResult("Shares don't join to the plain products: the time of their step means nothing.")
        return seconds


def _steps(asked: NetworksAsked, columns: int) -> ResultTable:
    agreements, kernels = asked.agreements(columns), kernels_here()
    made = {
        (name, kernel): (OwnCryptography if agreement.serving.tells_owners else LayerCryptography)(agreement, own)
        for kernel, own in kernels.items()
        for name, agreement in agreements.items()
    }
    for one in made.values():
        one.step()  # builds tables of keys: once per session
    runs = in_turns({name: one.step for name, one in made.items()}, asked.repetitions)
    steps = {name: Spread.of(seconds).scaled(1e3) for name, seconds in runs.items()}
    sent = {name: _bytes_of_step(agreement) for name, agreement in agreements.items()}
    rows = tuple[dict[str, Cell], ...](
        {
            "trained": name,
            "kernel": kernel,
            "step": step,
            "times": step.median / steps[PROTOCOL, kernel].median,
            "bytes": sent[name] / 1e3,
            "bytes_times": sent[name] / sent[PROTOCOL],
        }
        for (name, kernel), step in steps.items()
    )
    return ResultTable(
        str(columns),
        f"{asked.batch} rows, {columns} real columns of each party, {asked.hidden} units, {asked.key_bits:,} bits: ms "
        "of CPU on one core",
        columns_of(
            trained="trained",
            kernel="kernel",
            step="both parties' cryptography of a step",
            times="times Protocol 1",
            bytes="kB of a step, both ways",
            bytes_times="times Protocol 1's",
        ),
        rows,
        (
            "Protocol 1, linear: a linear model of two classes, both directions. paillier, shared: networks, by how "
            "the backward signal travels. Tables of keys are built beforehand, once per session; torch takes no part, "
            "nor does what is summed in the clear.",
        ),
    )


def _bytes_of_step(agreement: Agreement) -> int:
    """All values that the parties send each other in a step."""
    active, passive = (party.name for party in agreement.parties)
    if not agreement.serving.tells_owners:
        sizes = LayerSizes(LayerTerms(agreement))
        return sum(
            sizes.count(kind, *way, 0) * sizes.width(kind)
            for way in ((active, passive), (passive, active))
            for kind in Kind
            if kind is not Kind.FROZEN and sizes.is_sent(kind, *way)
        )
    formats, plan = CipherFormats(agreement), agreement.plan
    forwarded = _FORWARDED * plan.batch_size * agreement.outputs if plan.family.spec.forwards else 0
    return forwarded + sum(
        formats.residual_ciphertexts(plan.batch_size) * plan.encryption.value_bytes
        + formats.sum_ciphertexts(peer) * (plan.encryption.value_bytes + formats.answer_bytes(holder, peer))
        for holder, peer in ((active, passive), (passive, active))
        if holder in agreement.senders
    )
