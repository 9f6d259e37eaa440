"""A party's own settings have the last word on a session's security."""

from dataclasses import replace

from services.ciphers.default_plan import with_open_terms
from services.common.agreement import Agreement, PartyDescription, ProposedTerms, TrainingPlan
from services.common.errors import OutOfOrder
from services.common.settings import Settings
from vfl.crypto.ciphers import Paillier

# Learning rate times steps below which weights move by less than about a tenth of what they are.
_STANDSTILL = 0.1


def check_consent(agreement: Agreement, settings: Settings, description: PartyDescription) -> None:
    """Refuse terms that are weaker than this party's own settings allow, whoever proposed them.

    Args:
        agreement: the session's terms, as the coordinator states them.
        settings: this party's own.
        description: how this party described itself; an agreement that describes it otherwise is refused.

    Raises:
        OutOfOrder: naming both settings and what to change.
    """
    if [party for party in agreement.parties if party.name == description.name] != [description]:
        raise OutOfOrder(f"The agreement describes {description.name} otherwise than it described itself.")
    if any(party.aligned_rows != description.aligned_rows for party in agreement.parties):
        # The guard counts rows by it.
        raise OutOfOrder(f"The agreement has another number of aligned records than {description.name} has aligned.")
    if any(party.roster != description.roster for party in agreement.parties):
        raise OutOfOrder(f"The agreement counts other batches of earlier sessions than {description.name} has checked.")
    check_plan(agreement.plan, settings)
    if settings.most_equations < 1:
        _refuse_standstill(agreement)


def _refuse_standstill(agreement: Agreement) -> None:
    """Refuse a session that trains next to nothing, and would read one more sum of every record's columns."""
    plan = agreement.plan
    steps = plan.epochs * plan.steps_per_epoch(agreement.training_rows)
    step_size = plan.leakage.step_size
    if plan.family.spec.trains and step_size is not None and step_size * steps < _STANDSTILL:
        raise OutOfOrder(
            f"learning_rate={step_size:g} over {steps} steps leaves the weights almost where they start: such "
            "a session trains nothing, and its scores tell of records all the same. Choose a learning_rate of "
            f"{_STANDSTILL / steps:.2g} or more, or more epochs."
        )


def check_as_opened(agreement: Agreement, terms: ProposedTerms) -> None:
    """Refuse an agreement on anything but what the session was opened with, and the batch size that follows from it.

    Raises:
        OutOfOrder: with the first term that differs.
    """
    stated = (agreement.classes, agreement.active.name, {one.name for one in agreement.parties})
    if stated != (terms.classes, terms.active, {terms.active, *terms.passive_parties}):
        raise OutOfOrder("The coordinator states other parties or classes than those that the session was opened with.")
    expected = with_open_terms(replace(agreement, plan=terms.plan)).plan
    stated_terms, own_terms = agreement.plan.terms, expected.terms
    for name in {**own_terms, **stated_terms}:
        stated_term, own_term = stated_terms.get(name), own_terms.get(name)
        if stated_term != own_term:
            raise OutOfOrder(
                f"The coordinator states {name}={stated_term}, and the plan that the session was opened with comes to "
                f"{own_term}: it runs another version, or isn't honest."
            )


def check_plan(plan: TrainingPlan, settings: Settings) -> None:
    """Refuse a plan that is weaker than this party's own settings allow.

    Raises:
        OutOfOrder: naming both settings and what to change.
    """
    own_plan = settings.plan()
    if settings.allow and not {plan.learner, plan.protocol} <= {*settings.allow}:
        raise OutOfOrder(
            f"The session trains learner={plan.learner} under protocol={plan.protocol}, and this party's owner allows "
            f"{', '.join(settings.allow)}: propose one of these, or have the owner add to PLUMBLINE_ALLOW."
        )
    if settings.guard == "refuse" and (reasons := _not_recommended(plan)):
        raise OutOfOrder(f"{reasons[0]} (PLUMBLINE_GUARD=refuse)")
    if plan.cipher != own_plan.cipher:
        raise OutOfOrder(
            f"The session is cipher={plan.cipher}, this party runs cipher={own_plan.cipher}. "
            f"{_alike('CIPHER', own_plan)}"
        )
    if plan.protocol != own_plan.protocol:
        raise OutOfOrder(
            f"The session is protocol={plan.protocol}, this party runs protocol={own_plan.protocol}. "
            f"{_alike('PROTOCOL', own_plan)}"
        )
    if reason := plan.training.refusal(plan, settings):
        raise OutOfOrder(reason)
    if plan.is_encrypted and plan.key_bits < settings.key_bits:
        raise OutOfOrder(
            f"The session has keys of {plan.key_bits} bits, this party asks for {settings.key_bits} or more. "
            "Raise PLUMBLINE_KEY_BITS at the active party."
        )
    if plan.family.spec.trains != (settings.model is None):
        raise OutOfOrder("Either every party brings its part of an installed model (PLUMBLINE_MODEL), or none does.")
    if settings.kernel == "phe" and isinstance(plan.encryption, Paillier) and plan.packing:
        raise OutOfOrder(
            "The session packs values, and this party's PLUMBLINE_KERNEL=phe has one in a ciphertext. Set "
            "PLUMBLINE_PACKING=off at every party, or another kernel here."
        )
    for name in ("rerandomise", "packing", "cipher_options"):
        session_value, own_value = getattr(plan, name), getattr(own_plan, name)
        if session_value != own_value:
            raise OutOfOrder(
                f"The session has {name}={session_value}, this party {name}={own_value}. Set PLUMBLINE_{name.upper()} "
                "alike at every party."
            )


def _not_recommended(plan: TrainingPlan) -> list[str]:
    """Say what of a plan the threat model advises against, whatever is trained on; a sentence each.

    Weak keys aren't among it: a party takes them only where its own owner has said so (``allow_insecure_keys``).
    """
    sentences = []
    if not plan.is_encrypted:
        sentences.append(
            f"INSECURE: cipher={plan.cipher}, residuals and gradients travel unencrypted. Who receives them "
            "reads them, labels included, and the guard counts nothing."
        )
    sentences += plan.training.discouraged(plan)
    if not plan.rerandomise:
        sentences.append("INSECURE: rerandomise=off, answers carry the key holder's randomness.")
    return sentences


def _alike(setting: str, own_plan: TrainingPlan) -> str:
    """Say what to set, where this party's own term isn't the session's."""
    if own_plan.family.terms():
        return "It follows from the learner's options here, such as PLUMBLINE_BACKWARD: set them alike at every party."
    return f"Set PLUMBLINE_{setting} alike at every party."


def warnings_of(agreement: Agreement, *, insecure_transport: bool) -> list[str]:
    """Sentences for log and report about what a session's terms leave unprotected, or what isn't as it seems."""
    warnings = []
    if insecure_transport:
        warnings.append("INSECURE: transport=insecure, no TLS and no checked identities.")
    warnings += _not_recommended(agreement.plan)
    if agreement.plan.roster is not None:
        warnings += agreement.plan.roster.sentences
    if agreement.plan.is_encrypted and (weakness := agreement.plan.encryption.weakness):
        warnings.append(f"INSECURE: {weakness}.")
    if agreement.plan.patience and not agreement.row_counts.validation:
        warnings.append(
            f"patience stops nothing: {agreement.plan.validation_fraction:g} of {agreement.active.aligned_rows} "
            "records is less than one to validate with. Set a larger validation_fraction, or patience to 0."
        )
    elif agreement.plan.patience and agreement.validated_epochs < agreement.plan.epochs:
        warnings.append(
            f"Early stopping chooses among {agreement.validated_epochs} of {agreement.plan.epochs} epochs: no more are "
            "validated, since every validation is one more answer about the same records (PLUMBLINE_MOST_EQUATIONS of "
            "the passive party's owner)."
        )
    return warnings + agreement.plan.training.warnings(agreement)
