"""One party's defences, called where each acts: on labels, residuals, hidden units, updates, features, parameters."""

import logging
from collections.abc import Sequence
from dataclasses import Field, asdict, dataclass, fields, is_dataclass, replace
from typing import Any, Literal, cast

import numpy as np

from defences import (
    Defence,
    FeatureDefence,
    HiddenDefence,
    LabelDefence,
    LabelledResidualDefence,
    NoiseSource,
    ParameterDefence,
    ResidualDefence,
    SessionDefence,
    TrainingTerms,
    UpdateDefence,
)
from defences.base import DISCLOSING, Stage
from services.ciphers.hidden_layer import PRODUCT_STEP
from services.common.announced import AnnouncedDefence
from services.common.applied_defences import load_defences, noise_source
from services.common.identity import Role
from services.common.run_records import DefencePrediction
from services.common.settings import Settings, SettingsError
from vfl.arrays import FloatArray, IntArray

_log = logging.getLogger(__name__)

_OF_RESIDUALS: tuple[Stage, ...] = ("residuals", "labelled_residuals")
# Those that are asked, when a session begins, whether they can work.
_OF_SESSION: tuple[Stage, ...] = ("labels", *_OF_RESIDUALS, "hidden")


@dataclass(frozen=True, eq=False)
class Message:
    """Which of a party's messages a defence changes. Not to whom it goes: peers that compare see one draw.

    Attributes:
        purpose: what it is in the protocol.
        session_id: of the session.
        step: of training; of an answer, how many epochs its model has.
        rows: (n,) places of its records in the session's common order.
    """

    purpose: Literal["residuals", "hidden", "answer"]
    session_id: str
    step: int
    rows: IntArray

    @property
    def content(self) -> bytes:
        """All of it, as noise is a function of."""
        return repr((self.purpose, self.session_id, self.step)).encode() + self.rows.astype("<i8").tobytes()


class PartyDefences:
    """Applies a party's defences, in the order given; without any, every method gives back what it got.

    Attributes:
        names: of all of them. ``response_truncation`` has nothing to do here: ``truncate_answers`` says the same.
        announced: what other parties are told of those that change what disclosed parameters mean.
        changes_features: whether one changes features before any session sees them.
        changes_residuals: whether one changes residuals before they are encrypted.
        changes_hidden: whether one changes what is sent of a network's first layer.
        distorts_parameters: whether one changes parameters before they are disclosed.
    """

    def __init__(self, defences: Sequence[Defence] = (), noise: NoiseSource | None = None) -> None:
        self.names = tuple(defence.name for defence in defences)
        self.announced = tuple(
            AnnouncedDefence.of(defence) for defence in defences if set(DISCLOSING) & set(defence.spec.stages)
        )
        self._noise = noise or NoiseSource()
        self._of_session = cast(tuple[SessionDefence, ...], _of_stages(defences, *_OF_SESSION))
        self._labels = cast(tuple[LabelDefence, ...], _of_stages(defences, "labels"))
        self._residuals = cast(
            tuple[ResidualDefence | LabelledResidualDefence, ...], _of_stages(defences, *_OF_RESIDUALS)
        )
        self._hidden = cast(tuple[HiddenDefence, ...], _of_stages(defences, "hidden"))
        self._updates = cast(tuple[UpdateDefence, ...], _of_stages(defences, "updates"))
        self._features = cast(tuple[FeatureDefence, ...], _of_stages(defences, "features"))
        self._parameters = cast(tuple[ParameterDefence, ...], _of_stages(defences, "parameters"))
        self.changes_features, self.changes_residuals = bool(self._features), bool(self._residuals)
        self.changes_hidden, self.distorts_parameters = bool(self._hidden), bool(self._parameters)

    @classmethod
    def of(cls, settings: Settings, role: Role, secret: bytes | None = None) -> "PartyDefences":
        """Load the defences that the settings name for this role; raises ValueError for those that can't work here.

        ``secret`` is behind all that must be the same after a restart; None draws one for this process.
        """
        defences = load_defences(settings, role)
        check_defences(defences, settings)
        if not settings.truncate_answers and settings.plan().is_encrypted:
            _log.warning("INSECURE: truncate_answers=false, answers leave room for sums that nobody agreed to.")
        return cls(defences, noise_source(settings, secret))

    def check(self, terms: TrainingTerms) -> None:
        """Raise DefenceError when a defence can't work under a session's terms."""
        for defence in self._of_session:
            defence.check(terms)

    def predictions(self, terms: TrainingTerms) -> list[DefencePrediction]:
        """Predict what theory expects in a session of each defence that is asked, for the run's record."""
        expected = [(one.name, one.prediction(terms)) for one in self._of_session]
        return [DefencePrediction(name, asdict(prediction)) for name, prediction in expected if prediction is not None]

    def replace_labels(self, labels: IntArray, ids: Sequence[str], classes: int) -> IntArray:
        """Class indices to train on in place of those of the whole table, (n,): the same in every session."""
        for defence in self._labels:
            labels = defence.replace_labels(labels, ids, classes, self._noise)
        return labels

    def protect_residuals(
        self, residuals: FloatArray, terms: TrainingTerms, message: Message, labels: IntArray | None = None
    ) -> FloatArray:
        """Protect this party's residuals of one step before they are sent: the same ones in the same way each time.

        Args:
            residuals: (rows, columns), of a network its backward signal.
            terms: of the session.
            message: which they are.
            labels: class indices that these records are trained with, (rows,); the label party's only.
        """
        # How long rows are is in the values already, and its last bits are a library's.
        about = repr(replace(terms, row_norm=1.0)).encode()
        for defence in self._residuals:
            residuals = _on_grid(residuals, terms.residual_step)
            if "labelled_residuals" not in defence.spec.stages:
                noise = self._noise_of(message, defence, residuals, about)
                residuals = cast(ResidualDefence, defence).protect_residuals(residuals, terms, noise)
            elif labels is not None:
                noise = self._noise_of(message, defence, residuals, about, labels.astype("<i8").tobytes())
                with_labels = cast(LabelledResidualDefence, defence)
                residuals = with_labels.protect_labelled_residuals(residuals, labels, terms, noise)
        return residuals

    def protect_hidden(self, products: FloatArray, message: Message) -> FloatArray:
        """Protect what this party sends of a network's first layer, (n, h), in training and in every answer."""
        for defence in self._hidden:
            products = _on_grid(products, PRODUCT_STEP)
            products = defence.protect_hidden(products, self._noise_of(message, defence, products))
        return products

    def _noise_of(self, message: Message, defence: Defence, values: FloatArray, *about: bytes) -> NoiseSource:
        """Make the source that a defence draws from for these values: another defence or option, another noise."""
        options: list[Field[Any]] = [*fields(defence)] if is_dataclass(defence) else []
        mechanism = repr((defence.name, [(one.name, getattr(defence, one.name)) for one in options])).encode()
        if self._noise.is_seeded:
            message = replace(message, session_id="")  # drawn anew in each run, which is to be the same
        return self._noise.of_message(message.content, mechanism, values.astype("<f8").tobytes(), *about)

    def project_parameters(self, weights: FloatArray, terms: TrainingTerms) -> FloatArray:
        """Keep this party's own parameters, (d, columns), where its defences' promises hold."""
        for defence in self._updates:
            weights = defence.project_parameters(weights, terms)
        return weights

    def remarks(self, largest_norm: float, terms: TrainingTerms) -> list[str]:
        """Say what doesn't hold after a training in which this party's parameters had this norm, in sentences."""
        sentences = [defence.remark(largest_norm, terms) for defence in self._updates]
        return [sentence for sentence in sentences if sentence]

    def transform_features(self, features: FloatArray) -> FloatArray:
        """Transform this party's features before any session sees them: (n, d)."""
        for defence in self._features:
            features = defence.transform_features(features, self._noise.repeating(defence.name))
        return features

    def disclose(self, weights: FloatArray, features: FloatArray) -> FloatArray:
        """Distort this party's parameters before they are disclosed.

        Every session of this process uses the same secrets: distorting anew would tell more each time.

        Args:
            weights: class rows, (k, d).
            features: this party's own as it trained on them, (n, d).

        Returns:
            Class rows to disclose, (k, d).
        """
        for defence in self._parameters:
            weights = defence.disclose(weights, features, self._noise.repeating(defence.name))
        return weights


def check_defences(defences: Sequence[Defence], settings: Settings) -> None:
    """Raise SettingsError for defences that can't work under these settings or together.

    A defence that has nothing to do gets a line in the log: an audit runs the same ones without encryption.
    """
    distorting, transforming = _names_of_stage(defences, "parameters"), _names_of_stage(defences, "features")
    if distorting and not settings.disclose:
        raise SettingsError(
            f"{distorting} changes the parameters that are disclosed, and this party discloses none (black box): "
            "set PLUMBLINE_DISCLOSE=true (in an audit: give --attacks and no --black-box), or drop it."
        )
    if transforming and settings.model:
        raise SettingsError(
            f"{transforming} changes this party's features, and the model of PLUMBLINE_MODEL was trained on those that "
            "it had: drop one of them."
        )
    leaving = ", ".join(one.name for one in defences if one.spec.leaves_unit_range)
    bound = ", ".join(one.name for one in defences if "unit_features" in one.spec.needs)
    if leaving and bound:
        raise SettingsError(
            f"{leaving} takes this party's features out of [0, 1], and {bound} needs them there: drop one of them, or "
            "choose a transform that stays inside, such as feature_transform's kind=negate or kind=permutation."
        )
    truncating = _names_of_stage(defences, "answers")
    if truncating and not settings.truncate_answers:
        raise SettingsError(f"truncate_answers=false contradicts {truncating}, which cuts answers: drop one of them.")
    if defences and (assuming := _names_of_stage(defences, *settings.plan().training.unprotected)):
        raise SettingsError(f"{assuming} protects what protocol={settings.protocol} doesn't send: drop one of them.")
    training = _names_of_stage(defences, *_OF_SESSION, "answers")
    if training and settings.model:
        _log.warning("With PLUMBLINE_MODEL nothing is trained here: there is nothing to protect by %s.", training)
    elif truncating and not settings.plan().is_encrypted:
        _log.warning("%s has nothing to truncate without encryption (cipher=%s).", truncating, settings.cipher)


def _on_grid(values: FloatArray, step: float) -> FloatArray:
    """Round values to multiples of a step, without a negative zero: those that have the same noise are the same."""
    rounded: FloatArray = np.rint(values / step) * step + 0.0
    return rounded


def _names_of_stage(defences: Sequence[Defence], *stages: Stage) -> str:
    return ", ".join(defence.name for defence in defences if set(stages) & set(defence.spec.stages))


def _of_stages(defences: Sequence[Defence], *stages: Stage) -> tuple[Defence, ...]:
    return tuple(defence for defence in defences if set(stages) & set(defence.spec.stages))
