"""One way from a request to the settings of every process of a federation on this machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

import attacks as attack_plugins
from attacks.registry import ADAPTIVE
from defences import Defence, load_all
from defences.base import Stage
from services.adversary.load import load_attacks
from services.common.applied_defences import load_defences
from services.common.identity import Role, role_of
from services.common.learner_calls import LearnerCalls, LearnerFailed
from services.common.settings import AttackOptions, Settings, by_present_names, environment_values, settings_of
from services.party.party_defences import check_defences
from services.roles import check_role
from vfl.data.reading_rules import ReadingRules

# What the recipe says of each process by itself, whatever is asked of all.
_OWN = {"peers", "listen", "name", "certs", "run_dir", "attacks", "attack_options"}
_OWN |= {"defences", "defence_options", "most_equations", "most_sums"}
# What belongs to one party: a shell's variables for one that it serves say nothing of those that a recipe starts.
_OF_ONE_PARTY = {"peers", "listen", "name", "certs", "data", "share", "label_column", "columns", "drop", "encode"}
_OF_ONE_PARTY |= {one.name for one in fields(ReadingRules)}
_OF_ONE_PARTY |= {"model", "auxiliary", "known_labels", "prior_knowledge", "private_seed", "state_dir", "allow"}
# All tables are one person's: what sessions add up to is counted and told, and nothing is refused. Nobody starts a
# process again: a training waits for none.
_ONE_OWNER = {
    "most_equations": 1.0,
    "most_sums": 1.0,
    "alignments_per_day": 1_000_000,
    "least_ids": 1,
    "resume_within": 0.0,
}
# Whom attacks that either side can mount are mounted by, where nobody says otherwise.
BOTH = "both"
# What stands between a model and what the adversary of predictions sees.
_MET: frozenset[Stage] = frozenset({"scores", "parameters", "features"})
# Addresses are found when processes start.
_ANY_ADDRESS = "127.0.0.1:1"


@dataclass(frozen=True)
class Recipe:
    """What a federation on this machine is asked to be.

    Attributes:
        tables: settings of each party's own data, by the party's name; the active party is first.
        attacks: labels of attacks to mount, such as ``gia(init=half)``, each by the parties that can.
        adversary: ``active``, ``passive`` or ``both``: who mounts attacks that either can.
        levels: what adversaries of predictions may know beforehand: an attack that can be played at several is mounted
            at each, the Bayesian one also unasked where others meet a defence. Empty: attacks as they are named.
        defences: defences to apply, in this order, each by the services that it sits with.
        disclose: whether passive parties disclose their parameters (white box).
        is_repeatable: whether every process draws its secrets from the seed of the settings.
        has_lab: whether a model is trained in one place and installed.
        heeds_shell: whether the PLUMBLINE_* variables of this process are settings of every process, below
            ``settings``; those of one party, such as its data, never are.
        settings: settings of every process, by field name.
    """

    tables: Mapping[str, Mapping[str, Any]]
    attacks: tuple[str, ...] = ()
    adversary: str = BOTH
    levels: tuple[attack_plugins.Level, ...] = ()
    defences: tuple[str, ...] = ()
    disclose: bool = False
    is_repeatable: bool = False
    has_lab: bool = False
    heeds_shell: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    def checked(self) -> "CheckedRecipe":
        """Make the settings of every process and load the defences; raises ValueError for what can't work."""
        shell = environment_values() if self.heeds_shell else {}
        heeded = {name: value for name, value in shell.items() if name not in _OF_ONE_PARTY}
        requested = {**heeded, **by_present_names(self.settings)}
        common = settings_of({**requested, "attacks": self.attacks, "defences": self.defences})
        loaded = self._loaded_defences(common)
        attacks = self._mounted(common, loaded)
        names = [*self.tables, str(Role.COORDINATOR)]
        seeds = np.random.SeedSequence(common.seed).generate_state(len(names)).tolist()
        shared = {name: getattr(common, name) for name in common.model_fields_set - _OWN}
        shared["peers"] = dict.fromkeys(names, _ANY_ADDRESS)
        # An auditor may see the truth; parties of a federation that isn't attacked write no features.
        shared["record_features"] = common.record_features or bool(self.attacks)
        settings = {}
        for name, seed in zip(names, seeds, strict=True):
            party_values = {**self._attacks_of(name, attacks), **_defences_of(name, loaded, common)}
            if self.is_repeatable:
                party_values["private_seed"] = seed
            if role_of(name) is Role.PASSIVE:
                party_values["disclose"] = self.disclose
            settings[name] = checked(name, {**_ONE_OWNER, **shared, **party_values, **self.tables.get(name, {})})
        coordinator = settings.pop(Role.COORDINATOR)
        return CheckedRecipe({str(Role.COORDINATOR): coordinator, **settings}, self.tables, loaded, requested)

    def _loaded_defences(self, common: Settings) -> tuple[Defence, ...]:
        loaded = load_all(self.defences, common.defence_options)
        if not self.has_lab and (in_lab := [one.name for one in loaded if "lab" in one.spec.sits]):
            raise ValueError(
                f"{' and '.join(in_lab)} trains models in the lab: give --hidden to an audit, such as 8,8 (or '' for a "
                "linear model), or drop it."
            )
        return loaded

    def _mounted(self, common: Settings, loaded: Sequence[Defence]) -> dict[str, AttackOptions]:
        """List the attacks to mount, in their order, with their options."""
        options_by_attack = {name: common.attack_options.get(name, {}) for name in common.attacks}
        if not self.levels:
            return options_by_attack
        on_predictions = any(attack_plugins.spec_of(name).phase == "prediction" for name in options_by_attack)
        if on_predictions and any(_MET & set(defence.spec.stages) for defence in loaded):
            options_by_attack.setdefault(ADAPTIVE, {})
        for name, options in options_by_attack.items():
            spec = attack_plugins.spec_of(name)
            # What joins sessions is mounted at each level when they are over, and in one session as it is named.
            variants = [dict(spec.at_level[level]) for level in self.levels if level in spec.at_level]
            if options == {} and variants and not spec.joins_sessions:
                options_by_attack[name] = variants
        return options_by_attack

    def _adversaries_of(self, attack: str) -> tuple[str, ...]:
        """List the roles that mount an attack."""
        side = attack_plugins.spec_of(attack).adversary
        if side != "either":
            return (side,)
        return (Role.ACTIVE, Role.PASSIVE) if self.adversary == BOTH else (self.adversary,)

    def _attacks_of(self, name: str, options_by_attack: Mapping[str, AttackOptions]) -> dict[str, Any]:
        """List the attacks that this party mounts, and their options."""
        names = [attack for attack in options_by_attack if role_of(name) in self._adversaries_of(attack)]
        return {
            "attacks": tuple(names),
            "attack_options": {one: options_by_attack[one] for one in names if options_by_attack[one]},
        }


@dataclass(frozen=True)
class CheckedRecipe:
    """A recipe that can work.

    Attributes:
        parties: settings of every process, by its party's name; without a folder for what they write.
        tables: of these, what is of each party's own data.
        defences: those that the recipe names, loaded, in their order.
        asked: settings of every process as they were asked for, by the shell and above it by the recipe.
    """

    parties: Mapping[str, Settings]
    tables: Mapping[str, Mapping[str, Any]]
    defences: tuple[Defence, ...]
    asked: Mapping[str, Any]

    def settings(self, run_dir: Path) -> dict[str, Settings]:
        """Give every process this folder for what it writes of the run."""
        return {name: one.model_copy(update={"run_dir": run_dir}) for name, one in self.parties.items()}


def party_names(count: int) -> tuple[str, ...]:
    """Name so many parties: the active one, then ``passive``, or ``passive-1`` and so on where there are several."""
    passive = ["passive"] if count == 2 else [f"passive-{number}" for number in range(1, count)]
    return (str(Role.ACTIVE), *passive)


def own_tables(files: Sequence[str], *, label: str, id_column: str) -> dict[str, dict[str, Any]]:
    """Give every party its table.

    Arguments:
        files: each party's table, the active party's first.
        label: column of the labels in the active party's table.
        id_column: column of the record ids in every table.
    """
    tables = {
        name: {"data": file, "id_column": id_column} for name, file in zip(party_names(len(files)), files, strict=True)
    }
    tables[Role.ACTIVE]["label_column"] = label
    return tables


def shares_of(data: str, count: int) -> dict[str, dict[str, Any]]:
    """Deal a registered data set out to so many parties."""
    return {
        name: {"data": data, "share": f"{number}/{count}"} for number, name in enumerate(party_names(count), start=1)
    }


def checked(name: str, values: Mapping[str, Any]) -> Settings:
    """Make the settings of the party of this name, and check all that its process would refuse, then or in a job.

    Raises ValueError in the process's own words.
    """
    role = role_of(name)
    settings = settings_of({**values, "name": name if role is Role.PASSIVE else ""})
    check_role(settings, role)
    load_attacks(settings.attacks, settings.attack_options, role)
    defences = load_defences(settings, role)
    if role is not Role.COORDINATOR:
        check_defences(defences, settings)
    if role is Role.ACTIVE and not settings.model:
        learner = settings.plan().family
        try:
            LearnerCalls(learner)(learner.check_label_party)
        except LearnerFailed as error:
            raise ValueError(str(error)) from error
    return settings


def changed(name: str, settings: Settings, **changes: Any) -> Settings:
    """Change some of a party's settings; raises ValueError for what its process would refuse."""
    return checked(name, {**settings.given(), **changes})


def _defences_of(name: str, loaded: tuple[Defence, ...], common: Settings) -> dict[str, Any]:
    """List the defences that sit with this service, in the order given, and their options."""
    applied = [defence.name for defence in loaded if role_of(name) in defence.spec.sits]
    options = {one: common.defence_options[one] for one in applied if one in common.defence_options}
    return {"defences": tuple(applied), "defence_options": options}
