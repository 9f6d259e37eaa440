"""Which defences an audit tries on what leaked, what a trial runs, and what is said of one that can't be judged."""

from dataclasses import replace
from pathlib import Path

import pytest

from attacks import Conduct
from defences.registry import spec_of
from plumbline.audit.candidates import (
    Candidate,
    candidates_for,
    cipher_of_trials,
    judged_trial,
    most_trials,
    read_trials,
    trial_of,
)
from plumbline.audit.folder import AuditFolder
from plumbline.audit.plan import plan_audit
from plumbline.audit.request import AuditRequest
from plumbline.audit.tables import JoinedTables
from plumbline.judge.answer import Answer, ColumnAnswer
from plumbline.judge.federation_part import LevelVerdict
from plumbline.judge.findings import Findings
from plumbline.judge.measures import Interval
from plumbline.judge.training import TrainingFinding
from services.common.agreement import TrainingPlan
from tests.harness.documented_plugin import install
from tests.harness.findings import attack, column, findings, levels
from tests.harness.reported import findings_of, made_run

REQUEST = AuditRequest.of(data="breast_cancer", attacks=("half_star",), settings={"epochs": 1})
SHARED = Candidate(terms={"backward": "shared"})
LEAKS, SAFE = levels("half_star", 0.02), levels("half_star", 0.2)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    return findings_of(made_run(tmp_path_factory.mktemp("run")))


def answering(run: Findings, *, columns: bool, labels: bool, sees_scores: bool = True) -> Findings:
    """A run whose columns and labels leak, or not; without sees_scores no attack on predictions could be tried."""
    told = ColumnAnswer(
        party="passive", column="x", kind="number", light="red", levels=LEAKS if columns else SAFE, features=(0,)
    )
    answer = Answer((), "red", (), (told,), label_levels=(LEAKS if labels else SAFE,))
    tried = [attack("half_star", column("x", 0.02))] if sees_scores else []
    return replace(run, answer=answer, predictions=findings(*tried))


def titles(request: AuditRequest, found: Findings) -> list[str]:
    return [one.title for one in candidates_for(request, found)]


def test_only_what_leaked_is_defended(run: Findings) -> None:
    assert titles(REQUEST, answering(run, columns=False, labels=False)) == []
    labels = titles(REQUEST, answering(run, columns=False, labels=True))
    assert labels == ["protocol=shared", "response_truncation", "dp_noise", "label_randomised_response"]
    columns = titles(REQUEST, answering(run, columns=True, labels=False))
    assert columns[:4] == ["black box", "parameter_rotation", "feature_transform", "class_label"]
    assert len(columns) <= most_trials(REQUEST)
    both = titles(REQUEST, answering(run, columns=True, labels=True))
    assert both[:2] == ["protocol=shared", "protocol=shared + black box"]
    assert both[2:] == [f"{title} + dp_noise" for title in columns]


def test_shared_weights_are_tried_first_where_they_can_be(run: Findings) -> None:
    leaks = answering(run, columns=False, labels=True)
    assert titles(REQUEST.changed(cipher="plain"), leaks) == [
        "response_truncation",
        "dp_noise",
        "label_randomised_response",
    ]
    sharing = REQUEST.changed(settings={"protocol": "shared"})
    # Nobody sends what the others protect.
    assert titles(sharing, leaks) == ["label_randomised_response"]
    summary = replace(run.summary, agreement=replace(run.summary.agreement, plan=TrainingPlan(protocol="shared")))
    assert cipher_of_trials(replace(run, summary=summary)) == "paillier"


def test_networks_have_defences_of_their_own(run: Findings) -> None:
    """Scores and class rows there are none of; a linear model forwards nothing."""
    network = REQUEST.changed(settings={"learner": "network"})
    labels, columns = answering(run, columns=False, labels=True), answering(run, columns=True, labels=False)
    of_labels = ["discrete_gradients", "marvell", "max_norm", "label_randomised_response"]
    assert titles(network, labels) == ["backward=shared", "response_truncation", *of_labels]
    assert titles(network, columns) == ["black box", "hidden_rounding", "hidden_noise"]
    shared = network.changed(settings={"learner": "network", "backward": "shared"})
    assert titles(shared, labels) == ["label_randomised_response"]
    assert titles(shared, columns) == ["black box"]
    assert not {*of_labels[:3], "hidden_noise"} & set(titles(REQUEST, labels) + titles(REQUEST, columns))


@pytest.mark.parametrize("backward", ["plain", "paillier"])
def test_a_network_is_tried_on_its_own_rung(run: Findings, backward: str) -> None:
    pytest.importorskip("torch")
    request = REQUEST.changed(attacks=(), settings={"epochs": 1, "learner": "network", "backward": backward})
    recipe = request.recipe(request.tables.party_settings).checked()
    plan = plan_audit(request, recipe, JoinedTables(recipe.parties))
    trained = TrainingPlan(learner="network").changed(backward=backward)
    summary = replace(run.summary, agreement=replace(run.summary.agreement, plan=trained))
    cipher = cipher_of_trials(replace(run, summary=summary))
    for candidate, rung in ((Candidate(("marvell",), {"marvell": {"auc": 0.6}}), backward), (SHARED, "shared")):
        trial = trial_of(plan, candidate, "paillier" if candidate is SHARED else cipher)
        terms = trial.recipe.parties["active"].plan()
        assert (terms.learner, terms.learner_options["backward"]) == ("network", rung)


def test_a_defence_of_another_package_is_tried_as_its_spec_says(
    run: Findings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("adding-a-defence.md", "score_power", tmp_path, monkeypatch)
    found = candidates_for(REQUEST, answering(run, columns=True, labels=False))
    assert found[-1] == Candidate(("score_power",))
    # Where labels leak as well, shared weights are tried, alone and with the first.
    assert len(found) + 2 == most_trials(REQUEST)
    spec = replace(spec_of("score_power"), stops=("columns", "labels"), tried_with={"power": 0.5})
    monkeypatch.setattr("score_power.ScorePower.spec", spec)
    both = candidates_for(REQUEST, answering(run, columns=True, labels=True))
    assert both[-1] == Candidate(("score_power",), {"score_power": {"power": 0.5}})
    assert both[-2].title == f"{found[-2].title} + dp_noise"
    assert candidates_for(REQUEST, answering(run, columns=False, labels=True))[-1] == both[-1]


def test_what_is_in_place_is_not_tried_again(run: Findings) -> None:
    request = REQUEST.changed(black_box=True, defences=("class_label",))
    found = titles(request, answering(run, columns=True, labels=False))
    assert found[0] == "score_rounding"
    assert not {"black box", "parameter_rotation", "class_label"} & set(found)


def test_a_leak_that_no_attack_could_be_tried_on_is_not_known_to_be_closed(run: Findings) -> None:
    before = answering(run, columns=True, labels=False)
    held = judged_trial("d", {}, before, answering(run, columns=False, labels=False), run)
    assert held.holds
    assert held.exposed == 0
    unmeasured = judged_trial("d", {}, before, answering(run, columns=False, labels=False, sees_scores=False), run)
    assert not unmeasured.holds
    assert "was not measured" in unmeasured.reason
    open_end = tuple(replace(one, part=Interval(0.3, 0.0, 0.6)) for one in SAFE)
    few = answering(run, columns=False, labels=False)
    few = replace(few, answer=replace(few.answer, columns=(replace(few.answer.columns[0], levels=open_end),)))
    unknown = judged_trial("d", {}, before, few, run)
    assert not unknown.holds
    assert "Too few records" in unknown.reason
    leaking = judged_trial("d", {}, before, answering(run, columns=True, labels=True), run)
    assert not leaking.holds
    assert leaking.exposed == 2
    assert leaking.part == pytest.approx(0.8)


def test_a_trial_is_the_audit_again_with_its_defence_and_in_the_clear() -> None:
    request = REQUEST.changed(cipher="paillier", defences=("score_rounding",), try_defences=True)
    recipe = request.recipe(request.tables.party_settings).checked()
    plan = plan_audit(request, recipe, JoinedTables(recipe.parties))
    trial = trial_of(plan, Candidate(("score_noise",), {"score_noise": {"sigma": 0.5}}, black_box=True))
    assert trial.request.federation.defences == ("score_rounding", "score_noise")
    assert not trial.request.federation.try_defences
    assert trial.request.adversary == replace(plan.request.adversary, black_box=True)
    for name, settings in trial.recipe.parties.items():
        before = plan.recipe.parties[name]
        assert (settings.cipher, settings.seed, settings.private_seed) == ("plain", before.seed, before.private_seed)
    assert trial.recipe.parties["coordinator"].defence_options["score_noise"] == {"sigma": 0.5}
    assert not trial.recipe.parties["passive"].disclose
    with pytest.raises(ValueError, match="class_label"):
        trial_of(trial_of(plan, Candidate(("class_label",))), Candidate(("purification",)))


@pytest.mark.parametrize(
    ("conduct", "leaks", "cipher"),
    [("replaces_messages", LEAKS, "paillier"), ("replaces_messages", SAFE, "plain"), ("listens", LEAKS, "plain")],
)
def test_a_leak_of_ciphertexts_is_tried_on_ciphertexts(
    run: Findings, conduct: Conduct, leaks: tuple[LevelVerdict, ...], cipher: str
) -> None:
    told = TrainingFinding("x", "passive", "", 0.1, "labels", levels=leaks, peers=("active",), conduct=conduct)
    chosen = cipher_of_trials(replace(run, training=(told,)))
    assert chosen == cipher
    recipe = REQUEST.recipe(REQUEST.tables.party_settings).checked()
    plan = plan_audit(REQUEST, recipe, JoinedTables(recipe.parties))
    trial = trial_of(plan, Candidate(("dp_noise",)), chosen)
    assert {settings.cipher for settings in trial.recipe.parties.values()} == {cipher}
    assert trial.request.federation.cipher == cipher


def test_a_trial_under_another_protocol_is_the_audit_again_under_paillier() -> None:
    request = REQUEST.changed(settings={"epochs": 1, "protocol": "hu,shared"}, black_box=True)
    assert [one.title for one in request.federation.variants] == ["protocol=hu", "protocol=shared"]
    assert AuditRequest.of(**request.options()) == request
    recipe = request.recipe(request.tables.party_settings).checked()
    plan = plan_audit(request, recipe, JoinedTables(recipe.parties))
    assert plan.cipher.is_asked
    assert "protocol=shared has no messages in the clear" in plan.cipher.why
    trial = trial_of(plan, Candidate(terms={"protocol": "shared"}), plan.cipher.cipher)
    for name, settings in trial.recipe.parties.items():
        before = plan.recipe.parties[name]
        same = (settings.seed, settings.private_seed, settings.disclose)
        assert same == (before.seed, before.private_seed, before.disclose)
        assert (settings.protocol, settings.cipher, before.protocol) == ("shared", "paillier", "hu")
    assert trial.request.federation.variants == ()
    with pytest.raises(ValueError, match="protocol=shared has no messages in the clear"):
        trial_of(plan, Candidate(terms={"protocol": "shared"}), "plain")


@pytest.mark.parametrize(
    ("protocol", "words"), [("hu,bgw", "Unknown protocol 'bgw'. Known: hu, shared"), ("hu,hu", "Each protocol")]
)
def test_protocols_that_cannot_stand_side_by_side_are_refused(protocol: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        REQUEST.changed(settings={"protocol": protocol})


def test_nothing_was_tried_where_no_file_says_so_and_another_file_is_refused(tmp_path: Path) -> None:
    assert read_trials(AuditFolder(tmp_path)) == ()
    (tmp_path / "candidates.json").write_text('[{"other": 1}]')
    with pytest.raises(ValueError, match=r"candidates\.json is broken at 0\.defence"):
        read_trials(AuditFolder(tmp_path))
