"""``plumbline figures varasteh``: the experiments of Varasteh, sections III to VI."""

from studies.study import Study

_ROOM = "studies.varasteh"
STUDY = Study(
    name="varasteh",
    title="Privacy against agnostic inference attacks",
    paper="Morteza Varasteh: Privacy Against Agnostic Inference Attack in Vertical Federated Learning, 2023",
    sections={
        "moments": f"{_ROOM}.column_moments:moments_section",
        "agnostic": f"{_ROOM}.agnostic_errors:agnostic_section",
        "refined": f"{_ROOM}.refined_models:refined_section",
        "covariance": f"{_ROOM}.column_covariance:covariance_section",
        "accuracy": f"{_ROOM}.own_accuracy:accuracy_section",
        "trade_offs": f"{_ROOM}.trade_offs:trade_offs_section",
        "levels": f"{_ROOM}.interpretability_levels:levels_section",
        "epsilon": f"{_ROOM}.trade_offs:epsilon_section",
        "secrets": f"{_ROOM}.parameter_secrets:secrets_section",
    },
    lead="An active party without a single score trains a model of its own and takes its scores for the federation's. "
    "Beside what the paper draws: adversaries who need neither scores nor parameters, and those who know the defence.",
)
