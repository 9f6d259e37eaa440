"""Settings as a person writes them: labels of attacks, as reports print them."""

from typing import Any

import pytest

from services.adversary.load import labelled
from services.common.setting_texts import attacks_labelled, listed_labels
from services.common.settings import SettingsError, load_settings, settings_of


@pytest.mark.parametrize(
    "options",
    [{"init": "half"}, {"init": "half", "steps": 50, "box": True}, {"rates": [0.5, 1], "words": "none"}, {"x": None}],
)
def test_the_label_that_is_printed_is_what_one_types(options: dict[str, Any]) -> None:
    label = labelled("gia", **options)
    assert listed_labels(f"half_star, {label},gia") == ["half_star", label, "gia"]
    assert attacks_labelled([label], {}) == (("gia",), {"gia": [options]})


def test_variants_of_one_attack_stand_beside_each_other_with_their_options() -> None:
    made = settings_of({"attacks": "gia(init=half),half_star,gia(init=zero, steps=5),gia"})
    assert made.attacks == ("gia", "half_star")
    assert made.attack_options == {"gia": [{"init": "half"}, {"init": "zero", "steps": 5}, {}]}


def test_a_service_reads_labels_beside_the_options_of_other_attacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_ATTACKS", "gia(init=half),agnostic")
    monkeypatch.setenv("PLUMBLINE_ATTACK_OPTIONS", '{"agnostic": {"base": "ls"}}')
    made = load_settings()
    assert made.attack_options == {"agnostic": {"base": "ls"}, "gia": [{"init": "half"}]}
    assert settings_of(made.given()) == made


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"attacks": "gia(init=half"}, "write the options of gia as in gia"),
        ({"attacks": "gia(half)"}, "write the options of gia as in gia"),
        ({"attacks": "gia()"}, "write the options of gia as in gia"),
        ({"attacks": "gia(init=half)", "attack_options": {"gia": {"steps": 5}}}, "in one place"),
        ({"attacks": "gia(init=half)", "attack_options": "{"}, "expected JSON"),
    ],
)
def test_a_label_that_cant_be_read_says_how_to_write_it(given: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        settings_of(given)
