"""What a federation's model costs in quality: a plain model of the same columns, trained in one place, beside it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from attacks.training.label_completion import own_classifier
from plumbline.judge.summary import RunSummary
from services.common.run_files import RunFolderError
from services.common.run_folder import RunFolder
from vfl.arrays import FloatArray, IntArray
from vfl.learning import log_loss
from vfl.learning.score_quality import accuracy, area_figure, area_under_curve

# To fit more of them would take longer than what it tells is worth.
MOST_RECORDS = 20_000


@dataclass(frozen=True)
class PlainTwin:
    """A plain model of the parties' columns together, as a library trains it; on the test records.

    Attributes:
        model: what it is.
        accuracy: share of records whose largest score is their class.
        auc: area under the ROC curve; NaN where a class is absent.
        log_loss: mean log loss, in nats.
        federation_log_loss: the same of the scores that the federation delivered.
    """

    model: str
    accuracy: float
    auc: float
    log_loss: float
    federation_log_loss: float


def plain_twin(folder: RunFolder, summary: RunSummary) -> PlainTwin | None:
    """Train the plain twin of a run's model on the records that it was trained on, and score the same test records.

    A logistic regression; of a learner that forwards a first layer, a network of one layer of as many units. None for
    an installed model, where no features were recorded, no record tests, or all that are trained on are of one class.

    Raises:
        RunFolderError: for a file that is broken, and parties of other records.
    """
    agreement = summary.agreement
    tested, spec = folder.delivered_scores(agreement), agreement.plan.family.spec
    names = [party.name for party in agreement.parties]
    if not (spec.trains and len(tested.rows) and all(map(folder.has_features, names))):
        return None
    tables, labels = [folder.features(name).features for name in names], folder.labels()
    if {agreement.active.aligned_rows} != {len(labels), *map(len, tables)}:
        raise RunFolderError(f"{folder.path} has parties of other records: run it again, into a new folder.")
    table = np.hstack(tables)
    training = np.random.default_rng(0).permutation(agreement.plan.split(len(table)).train)[:MOST_RECORDS]
    if len(np.unique(labels[training])) < 2:
        return None
    model = _network(agreement.outputs) if spec.answers == "sums" else own_classifier()
    model.fit(table[training], labels[training])
    scores = np.zeros((len(tested.rows), agreement.classes))
    scores[:, model.classes_] = model.predict_proba(table[tested.rows])
    return PlainTwin(
        f"plain network of {agreement.outputs} units" if spec.answers == "sums" else "plain logistic regression",
        *_quality(scores, tested.labels),
        log_loss(tested.scores, tested.labels),
    )


def _quality(scores: FloatArray, labels: IntArray) -> tuple[float, float, float]:
    return accuracy(scores, labels), area_under_curve(scores, labels), log_loss(scores, labels)


def _network(units: int) -> Any:
    from sklearn.neural_network import MLPClassifier  # slow to import
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), MLPClassifier((units,), early_stopping=True, random_state=0))


def cost_words(summary: RunSummary, twin: PlainTwin | None) -> str:
    """Set the federation's model beside its plain twin, in a line; empty without one."""
    if twin is None:
        return ""
    areas = [area_figure(one.auc, summary.tested_by_class) for one in (summary, twin)]
    federated = f"{summary.accuracy:.4f}, {areas[0]}, {twin.federation_log_loss:.4f}"
    plain = f"{twin.accuracy:.4f}, {areas[1]}, {twin.log_loss:.4f}"
    return f"Accuracy, AUC and log loss: {federated}; {twin.model} on the same columns: {plain}."
