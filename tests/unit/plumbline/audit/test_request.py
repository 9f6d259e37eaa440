"""What an audit is asked for that can't be."""

import pytest

from plumbline.audit.request import AuditRequest
from vfl.data import SplitError


@pytest.mark.parametrize("name", [".", "..", "../../evil", "a/b", "/evil", "a\\b"])
def test_a_name_that_leads_out_of_the_folder_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="--name is part of the name of the run's folder"):
        AuditRequest.of(data="wine", name=name)


@pytest.mark.parametrize("parties", [14, 50])
def test_more_parties_than_columns_are_refused_before_anything_is_made(parties: int) -> None:
    # Once: after a minute, when every party had been given a certificate and a process.
    with pytest.raises(SplitError, match=f"13 columns cannot give each of {parties} parties"):
        AuditRequest.of(data="wine", parties=parties)
    assert AuditRequest.of(data="wine", parties=13).tables.parties == 13


def test_attacks_have_their_options_behind_their_names() -> None:
    settings = {"attack_options": '{"agnostic": {"base": "ls"}}'}
    request = AuditRequest.of(data="wine", attacks=("gia(init=half)", "agnostic", "gia(init=zero)"), settings=settings)
    assert request.adversary.attacks == ("gia", "agnostic")
    recipe = request.recipe(request.tables.party_settings).checked()
    assert recipe.parties["active"].attack_options["gia"] == [{"init": "half"}, {"init": "zero"}]
    with pytest.raises(ValueError, match="in one place"):
        AuditRequest.of(data="wine", attacks=("agnostic(base=ls)",), settings=settings)
    with pytest.raises(ValueError, match="Unknown attack 'giaa'"):
        AuditRequest.of(data="wine", attacks=("giaa(init=half)",))


@pytest.mark.parametrize("settings", [{"learner": "network"}, {"backward": "plain"}])
def test_a_network_is_installed_or_trained_in_the_federation(settings: dict[str, object]) -> None:
    """`--hidden` alone installs one, as ever."""
    assert AuditRequest.of(data="breast_cancer", hidden=(8,)).federation.settings == {}
    assert not AuditRequest.of(data="breast_cancer", hidden=(8,)).federation.forwards
    with pytest.raises(ValueError, match=r"--hidden installs a network .* drop one\. The units of --learner network"):
        AuditRequest.of(data="breast_cancer", hidden=(8,), settings=settings)
