"""``plumbline figures rassouli``: every figure of the paper, redrawn, with what it states beside what was measured."""

from studies.study import Study

_ROOM = "studies.rassouli"

STUDY = Study(
    name="rassouli",
    title="Inference attacks on predictions",
    paper="Rassouli, Varasteh, Gündüz: Privacy Against Inference Attacks in Vertical Federated Learning",
    sections={
        "columns": f"{_ROOM}.columns:columns_section",
        "white_box": f"{_ROOM}.white_box:white_box_section",
        "bounds": f"{_ROOM}.bounds:bounds_section",
        "black_box": f"{_ROOM}.black_box:black_box_section",
        "transform": f"{_ROOM}.transform:transform_section",
        "schemes": f"{_ROOM}.schemes:schemes_section",
        "starts": f"{_ROOM}.starts:starts_section",
        "printed": f"{_ROOM}.printed:printed_section",
        "earlier": f"{_ROOM}.earlier:earlier_section",
    },
    lead="An active party that receives confidence scores solves for the passive party's features. Every figure and "
    "every statement of the paper, on the same data, with the Bayesian adversary of this project beside them.",
)
