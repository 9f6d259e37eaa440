"""Plans as earlier releases stored them."""

from collections.abc import Container
from typing import Any


def plan_content(content: Any, terms: Container[str]) -> Any:
    """Write a plan as JSON stores it, its learner's options beside the other keys, as ``TrainingPlan`` has it.

    Before plans named their batches, every epoch had its own. Before protocols had options, those of shared weights
    were terms. Before they named a learner, ``installed_model`` said
    that nothing is trained.
    """
    if not isinstance(content, dict):
        return content
    content = {"batches": "reshuffled", **content}
    if "protocol_options" not in content:
        options = {name: content.pop(name) for name in ("serving", "opening_bits") if name in content}
        content["protocol_options"] = options if content.get("protocol") == "shared" else {}
    if "learner_options" in content:
        return content
    terms_of_plan = {key: content[key] for key in content if key in terms}
    options = {key: content[key] for key in content if key not in terms_of_plan}
    if options.pop("installed_model", False):
        return {**terms_of_plan, "learner": "installed"}
    return {**terms_of_plan, "learner_options": options}
