"""The registry of attacks: an explicit dict, plus whatever other packages offer under ``plumbline.attacks``."""

from typing import Any

from attacks.base import AttackSpec, PredictionAttack
from attacks.training_attack import TrainingAttack
from vfl.plugin_registry import PluginRegistry


class UnknownAttack(ValueError):
    """A name that no attack has; the message lists those there are.

    Examples:
        >>> load("half_stars")
        Traceback (most recent call last):
            ...
        attacks.registry.UnknownAttack: Unknown attack 'half_stars'. Known: ... Did you mean 'half_star'?
    """


_BUILT_IN = {
    "zero": "attacks.prediction.baselines:Zero",
    "random_guess": "attacks.prediction.baselines:RandomGuess",
    "half": "attacks.prediction.baselines:HalfGuess",
    "imputation": "attacks.bayes.records:Imputation",
    "ls": "attacks.prediction.equation_solving:LeastSquares",
    "half_star": "attacks.prediction.equation_solving:HalfStar",
    "clamped_ls": "attacks.prediction.equation_solving:ClampedLeastSquares",
    "cls": "attacks.prediction.equation_solving:ConstrainedLeastSquares",
    "rcc1": "attacks.prediction.chebyshev:RelaxedChebyshevCentre1",
    "rcc2": "attacks.prediction.chebyshev:RelaxedChebyshevCentre2",
    "gia": "attacks.prediction.gradient_inversion:GradientInversion",
    "grn": "attacks.prediction.generative:GenerativeRegression",
    "one_feature": "attacks.prediction.one_feature:OneFeature",
    "shadow": "attacks.prediction.shadow:ShadowModel",
    "regression": "attacks.bayes.learned:LearnedRegression",
    "agnostic": "attacks.prediction.agnostic:Agnostic",
    "posterior": "attacks.bayes.posterior:BayesianAdversary",
    "many_sessions": "attacks.bayes.posterior:ManySessions",
    "method_of_moments": "attacks.bayes.method_of_moments:MethodOfMoments",
    "feature_order": "attacks.training.feature_order:FeatureOrder",
    "label_recovery": "attacks.training.label_recovery:LabelRecovery",
    "trajectory_labels": "attacks.training.trajectory_labels:TrajectoryLabels",
    "newcomer": "attacks.training.newcomer:Newcomer",
    "trajectory_products": "attacks.training.trajectory_products:TrajectoryProducts",
    "own_part": "attacks.training.own_part:OwnPart",
    "gradient_direction": "attacks.training.gradient_direction:GradientDirection",
    "batch_inversion": "attacks.training.batch_inversion:BatchInversion",
    "hidden_space": "attacks.training.hidden_space:HiddenSpace",
    "gram_space": "attacks.training.gram_space:GramSpace",
    "binary_columns": "attacks.training.binary_columns:BinaryColumns",
    "chosen_share": "attacks.training.chosen_share:ChosenShare",
    "replacement_backdoor": "attacks.training.replacement_backdoor:ReplacementBackdoor",
    "named_bins": "attacks.training.named_bins:NameBins",
    "chosen_gradients": "attacks.training.chosen_gradients:ChosenGradients",
    "chosen_sums": "attacks.training.chosen_sums:ChosenSums",
    "leaf_labels": "attacks.training.leaf_labels:LeafLabels",
    "disclosed_thresholds": "attacks.prediction.disclosed_thresholds:DisclosedThresholds",
    "reached_leaves": "attacks.prediction.reached_leaves:ReachedLeaves",
    "averaged_products": "attacks.training.averaged_products:AveragedProducts",
    "auxiliary_ciphertext": "attacks.training.auxiliary_ciphertext:AuxiliaryCiphertext",
    "single_shares": "attacks.training.single_shares:SingleShares",
    "randomiser_channel": "attacks.training.randomiser_channel:RandomiserChannel",
    "opening_code": "attacks.training.opening_code:OpeningCode",
}

# What an audit mounts unasked: on predictions that a defence changed, and on all sessions that owners allow together.
ADAPTIVE = "posterior"
OF_ALL_SESSIONS = "many_sessions"
# What complete records tell without a score: the judge measures the others against these, the second less its scores.
FROM_RECORDS, LEARNED = "imputation", "regression"
# What a reader is told to mount who tried none of their conduct; runs from before conduct was written know only them.
REPLACING = ("auxiliary_ciphertext", "single_shares", "randomiser_channel", "replacement_backdoor")
# Of them, what the label party is told to mount against whole records.
SINGLE = "single_shares"
# What a network's hidden sums tell with no record known: where it isn't done, nothing is known of them.
ON_SUMS = "gram_space"
# Likewise where a first layer is shared.
CHOOSING = "chosen_share"

ENTRY_POINT_GROUP = "plumbline.attacks"
REGISTRY = PluginRegistry("attack", ENTRY_POINT_GROUP, _BUILT_IN, UnknownAttack)

names = REGISTRY.names
attack_class = REGISTRY.class_of


def spec_of(name: str) -> AttackSpec:
    """Look up what an attack declares; raises UnknownAttack, and ValueError for a plugin that declares nothing.

    Examples:
        >>> spec_of("half_star").knowledge, spec_of("half_star").needs
        ('white_box', ('scores', 'weights_active', 'weights_passive', 'bias'))
    """
    spec = getattr(attack_class(name), "spec", None)
    if not isinstance(spec, AttackSpec):
        raise ValueError(f"{name} declares no spec: give its class a spec, an attacks.AttackSpec, and a name.")
    return spec


def load(name: str, /, **options: Any) -> Any:
    """Make an attack by name, with its options; ``load_prediction`` and ``load_training`` say of which type.

    Raises UnknownAttack, and ValueError for options that it doesn't take, or where it lacks what its service calls.

    Examples:
        >>> load("gia", init="half").init
        'half'
    """
    spec = spec_of(name)
    attack = REGISTRY.load(name, **options)
    if not isinstance(getattr(attack, "name", None), str):
        raise ValueError(f"{name} has no name: give its class one, the text that it is registered under.")
    if not callable(getattr(attack, spec.method, None)):
        raise ValueError(f"{name} is an attack on {spec.phase} and lacks {spec.method}, which its service calls.")
    return attack


def load_prediction(name: str, /, **options: Any) -> PredictionAttack:
    """Make an attack on predictions by name; raises ValueError for one on training, and what ``load`` raises.

    Examples:
        >>> load_prediction("label_recovery")
        Traceback (most recent call last):
            ...
        ValueError: label_recovery is an attack on training, not on prediction: load it as such.
    """
    _check_phase(name, "prediction")
    attack: PredictionAttack = load(name, **options)
    return attack


def load_training(name: str, /, **options: Any) -> TrainingAttack:
    """Make an attack on training by name; raises ValueError for one on predictions, and what ``load`` raises.

    Examples:
        >>> load_training("label_recovery").name
        'label_recovery'
    """
    _check_phase(name, "training")
    attack: TrainingAttack = load(name, **options)
    return attack


def _check_phase(name: str, phase: str) -> None:
    actual = spec_of(name).phase
    if actual != phase:
        raise ValueError(f"{name} is an attack on {actual}, not on {phase}: load it as such.")
