"""What an audit is asked to run, and the settings that it gives every process."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from attacks.registry import attack_class
from defences import Defence, load_all
from services.common.applied_defences import load_defences
from services.common.identity import Role, role_of
from services.common.settings import Settings, load_settings
from services.party.party_defences import check_defences
from services.roles import check_role
from vfl.data import column_blocks, dataset


@dataclass(frozen=True)
class AuditRequest:
    """What to run: a registered data set dealt out to ``parties``, or one table per party; plus any settings."""

    data: str = ""
    active: str = ""
    passive: tuple[str, ...] = ()
    label: str = ""
    id_column: str = "id"
    parties: int = 2
    name: str = ""
    runs: Path = Path("runs")
    attacks: tuple[str, ...] = ()
    defences: tuple[str, ...] = ()
    adversary: str = "active"
    black_box: bool = False
    auxiliary: int = 0
    hidden: tuple[int, ...] | None = None
    activation: str = "sigmoid"
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        tables = bool(self.active or self.passive or self.label)
        if self.data and tables:
            raise ValueError("--data contradicts --active, --passive and --label: give a data set or tables, not both.")
        if not self.data and not (self.active and self.passive and self.label):
            raise ValueError("Give --data NAME (see `plumbline datasets`), or all of --active, --passive and --label.")
        if self.adversary not in ("active", "passive"):
            raise ValueError(f"--adversary is active or passive, got {self.adversary!r}.")
        if self.name in (".", "..") or "/" in self.name or "\\" in self.name:
            raise ValueError(
                f"--name is part of the name of the run's folder, got {self.name!r}: leave out / and \\; "
                "--runs says where the folder goes."
            )
        if self.data:
            column_blocks(dataset(self.data).features, self.parties)

    @property
    def passive_names(self) -> list[str]:
        count = self.parties - 1 if self.data else len(self.passive)
        return ["passive"] if count == 1 else [f"passive-{number}" for number in range(1, count + 1)]

    def _mounted_by(self, party: str) -> tuple[str, ...]:
        """The attacks of this request that sit with ``party``; those that either can mount go to ``adversary``."""
        role = "active" if party == "active" else "passive"
        sides = {name: attack_class(name).spec.adversary for name in self.attacks}
        return tuple(name for name, side in sides.items() if role == (self.adversary if side == "either" else side))

    def loaded_defences(self) -> tuple[Defence, ...]:
        """The defences with their options; raises ValueError for those that contradict each other or this request."""
        loaded = load_all(self.defences, self._base_settings().defence_options)
        if any("lab" in defence.spec.sits for defence in loaded) and self.hidden is None:
            raise ValueError("dp_sgd trains models in the lab: give --hidden, such as 8,8 (or '' for a linear model).")
        return loaded

    def _base_settings(self) -> Settings:
        return load_settings(**{**self.settings, "attacks": self.attacks, "defences": self.defences})

    def _defence_settings(self, party: str) -> dict[str, Any]:
        """The defences of this request that sit with ``party``, in the order given, and their options."""
        applied = [defence.name for defence in self.loaded_defences() if role_of(party) in defence.spec.sits]
        given = self._base_settings().defence_options
        return {
            "defences": ",".join(applied),
            "defence_options": {name: given[name] for name in applied if name in given},
        }

    def party_settings(self, record_folder: Path) -> dict[str, dict[str, Any]]:
        """Settings of every process by party name; raises SettingsError before anything is started."""
        names = ["active", *self.passive_names]
        base = self._base_settings()
        not_common = {"peers", "listen", "name", "certs", "attacks", "attack_options", "defences", "defence_options"}
        chosen = {key: getattr(base, key) for key in base.model_fields_set - not_common}
        # The auditor of a simulation may see the truth; parties of a real federation write no features.
        common = {**chosen, "run_dir": record_folder, "record_features": bool(self.attacks)}
        private_seeds = np.random.SeedSequence(base.seed).generate_state(len(names) + 1).tolist()
        settings: dict[str, dict[str, Any]] = {
            "coordinator": {**common, "private_seed": private_seeds[-1], **self._defence_settings("coordinator")}
        }
        for number, name in enumerate(names):
            own: dict[str, Any] = {"private_seed": private_seeds[number], **self._defence_settings(name)}
            if self.data:
                own |= {"data": self.data, "share": f"{number + 1}/{len(names)}"}
            else:
                table = self.active if number == 0 else self.passive[number - 1]
                own |= {"data": table, "id_column": self.id_column}
                if number == 0:
                    own["label_column"] = self.label
            mounted = self._mounted_by(name)
            own |= {
                "attacks": ",".join(mounted),
                "attack_options": {one: base.attack_options[one] for one in mounted if one in base.attack_options},
            }
            if number > 0:
                own["disclose"] = bool(self.attacks) and not self.black_box
            settings[name] = {**common, **own}
        for name, values in settings.items():
            peers = dict.fromkeys(settings, "127.0.0.1:1")
            loaded = load_settings(**{**values, "peers": peers, "name": ""})
            check_role(loaded, role_of(name))
            if name != Role.COORDINATOR:
                check_defences(load_defences(loaded, role_of(name)), loaded)
        return settings
