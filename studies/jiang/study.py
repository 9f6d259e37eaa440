"""``plumbline figures jiang``: the experiments of Jiang et al. (2022), sections 5 and 6."""

from studies.study import Study

_HERE = "studies.jiang"

STUDY = Study(
    name="jiang",
    title="Gradient inversion of predictions",
    paper="Xue Jiang, Xuebing Zhou, Jens Grossklags: Comprehensive Analysis of Privacy Leakage in Vertical Federated "
    "Learning During Prediction (2022)",
    sections={
        "datasets": f"{_HERE}.accuracies:datasets",
        "linear": f"{_HERE}.inversion.linear_inversion:linear",
        "correlation": f"{_HERE}.inversion.correlated_columns:correlation",
        "networks": f"{_HERE}.inversion.network_inversion:networks",
        "generative": f"{_HERE}.inversion.generator_records:generative",
        "sizes": f"{_HERE}.inversion.network_shapes:sizes",
        "activations": f"{_HERE}.inversion.network_shapes:activations",
        "shadow": f"{_HERE}.shadow_models.shadow:shadow",
        "auxiliary": f"{_HERE}.shadow_models.auxiliary:auxiliary",
        "structures": f"{_HERE}.shadow_models.structures:structures",
        "trade_offs": f"{_HERE}.with_defences.trade_offs:trade_offs",
        "ladder": f"{_HERE}.ladder:ladder",
    },
    lead="The active party moves a guess of the passive party's features until the model's scores match those that it "
    "was sent. Table 1 and Figures 5 to 15 on the same data, and beside each published attack the Bayesian adversary "
    "and what a guess without any score reaches.",
)
