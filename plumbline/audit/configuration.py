"""An audit's request as a file: audit.toml, read by ``plumbline audit --config`` and written into every run's folder.

Keys are the names of the command's options. Three tables hold what has names of its own: ``[settings]``, ``[encode]``,
and ``[attack-options.NAME]`` and ``[defence-options.NAME]``.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from plumbline.audit.request import DEFAULTS, NO_ATTACKS, OPTIONS, AuditRequest, attacks_to_mount
from plumbline.options import SETTINGS_AS_OPTIONS, Declared
from services.common.durable import write_durably
from services.common.settings import Settings, by_present_names
from vfl.plugin_registry import fits, in_words
from vfl.source_words import LEFT_OUT
from vfl.suggestions import did_you_mean

FILE = "audit.toml"
# What has keys of its own.
_TABLES = ("settings", "encode", "attack-options", "defence-options")
_OPTIONS = {one.key: one for name, one in OPTIONS.items() if name not in _TABLES}
# Of a file of options, and of one key in it.
_MOST_BYTES, _MOST_KEYS = 16 << 20, 100
# How the terminal is spoken to.
_SAID = ("quiet", "verbose", "json")
_SETTINGS = tuple(name.replace("_", "-") for name in SETTINGS_AS_OPTIONS)
KEYS = (*_OPTIONS, *_SETTINGS, *_TABLES, *_SAID)
_HEADER = """\
# {run}: repeat it with
#   plumbline audit --config {path}
# An option on the command line wins over this file.
"""
_PASSWORDS = f"""\
# But first write the password in place of each {LEFT_OUT}: no file of a run holds one.
"""
_FRAMES = """\
# But first save {tables}: no file is left of a data frame. Then name the
# files that you saved below, in place of those that are gone.
"""


class ConfigurationError(ValueError):
    """A file of options that can't be used; the text says where and what to do."""


@dataclass(frozen=True)
class AuditOptions:
    """What one place asks of an audit: a file, or the command line.

    Attributes:
        fields: of the request, by name, but its settings.
        settings: of every process, by name.
        said: ``quiet``, ``verbose`` or ``json``: how the terminal is spoken to.
    """

    fields: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    said: frozenset[str] = frozenset()

    def over(self, below: "AuditOptions") -> "AuditOptions":
        """Take what both ask; where they contradict each other, this one."""
        loudness = {"quiet", "verbose"}
        switches = below.said - loudness if self.said & loudness else below.said
        return AuditOptions({**below.fields, **self.fields}, {**below.settings, **self.settings}, self.said | switches)

    def request(self) -> AuditRequest:
        """Make the request; raises ValueError for one that can't be."""
        if {"quiet", "verbose"} <= self.said:
            raise ValueError("--quiet contradicts --verbose: give one of them.")
        fields = {
            "attacks": attacks_to_mount(self.fields.get("attacks")),
            "verbosity": next((one for one in ("quiet", "verbose") if one in self.said), "normal"),
            "settings": dict(self.settings),
        }
        return AuditRequest.of(**{**self.fields, **fields})


def asked_of(
    fields: Mapping[str, Any], settings: Mapping[str, Any], said: frozenset[str] = frozenset()
) -> AuditOptions:
    """Put the cipher, which is an option and a setting, in its one place; raises ValueError where it is given twice."""
    if "cipher" not in settings:
        return AuditOptions(fields, settings, said)
    if fields.get("cipher", settings["cipher"]) != settings["cipher"]:
        raise ValueError(
            f"--cipher {fields['cipher']} contradicts --set cipher={settings['cipher']}: drop one of them."
        )
    rest = {name: value for name, value in settings.items() if name != "cipher"}
    return AuditOptions({**fields, "cipher": settings["cipher"]}, rest, said)


def read_configuration(path: Path) -> AuditOptions:
    """Read a file of options; relative paths in it begin at its folder.

    Raises:
        ConfigurationError: for what is no TOML, a key that no option has, or a value that an option doesn't take.
        OSError: where it can't be read.
    """
    text, content = read_options(path)
    place = _Place(path, text)
    named = by_present_names({key.replace("-", "_"): value for key, value in content.items()})
    options = {key.replace("_", "-"): value for key, value in named.items()}
    for key, value in options.items():
        if key not in KEYS:
            raise place.error(key, f"there is no option {key!r}.{did_you_mean(key, KEYS)}")
        if (key in _TABLES) != isinstance(value, Mapping):
            kind = f"a table: [{key}]" if key in _TABLES else "a value, not a table"
            raise place.error(key, f"{key} is {kind}.")
    try:
        switches = frozenset(key for key in _SAID if key in options and _of_kind(key, options[key], bool, place))
        return asked_of(_fields_of(options, place), _settings_of(options, place), switches)
    except ConfigurationError:
        raise
    except ValueError as error:
        raise ConfigurationError(f"{path}: {error}") from error


def read_options(path: Path) -> tuple[str, dict[str, Any]]:
    """Read a TOML file: its text and what it holds, unchecked. Raises ConfigurationError and OSError."""
    if (path.exists() and not path.is_file()) or (path.is_file() and path.stat().st_size > _MOST_BYTES):
        raise ConfigurationError(f"{path} is no file of options: give one that `plumbline audit` wrote, or your own.")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path} is no text in UTF-8: save it as such.") from None
    # Its parser takes time that grows with the square of a key's parts, and no option has more than a few.
    if any(len(line.partition("=")[0].split(".")) > _MOST_KEYS for line in text.splitlines()):
        raise ConfigurationError(f"{path} is no TOML with options: a key has too many parts.")
    try:
        return text, tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} is no TOML: {str(error)[:1].lower()}{str(error)[1:]}.") from None


def write_configuration(folder: Path, request: AuditRequest, settings: Mapping[str, Any]) -> Path:
    """Write the file that repeats this request from anywhere.

    Args:
        folder: of the run.
        request: what was asked for, with its settings.
        settings: of every process, those of the request and of the shell that asked.
    """
    path = folder / FILE
    header = _HEADER.format(run=folder.name, path=path)
    if frames := request.tables.frames:
        header += _FRAMES.format(tables=" and ".join(f"the table of {name}" for name in frames))
    if request.tables != request.tables.without_passwords():
        header += _PASSWORDS
    write_durably(path, (header + "\n" + tomli_w.dumps(repeating(request, settings))).encode())
    return path


def repeating(request: AuditRequest, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Write options that make this request, without passwords and what has its default; paths are absolute."""
    every = {**request.options(), **vars(request.tables.without_passwords())}
    # Where all runs go by default is a place that another folder doesn't have.
    values = {one.name: every[one.name] for one in _OPTIONS.values()}
    changes = {name: value for name, value in values.items() if value not in (DEFAULTS[name], None) or name == "runs"}
    entries = {OPTIONS[name].key: _as_toml(value) for name, value in _rooted(changes, Path.cwd()).items()}
    entries["attacks"] = list(request.adversary.attacks) or [NO_ATTACKS]
    # The request's own fields, which a shell's variables of these names don't change.
    stated = {"attacks", "defences", *(["cipher"] if request.federation.cipher != "auto" else [])}
    asked_for = {**settings, **request.federation.listed}
    common = _rooted({name: value for name, value in asked_for.items() if name not in stated}, Path.cwd())
    options = {f"{kind}-options": _options(common, f"{kind}_options") for kind in ("attack", "defence")}
    tables = {"encode": dict(request.tables.encode), "settings": _as_toml(common), **options}
    verbosity = request.output.verbosity
    loudness: dict[str, Any] = {verbosity: True} if verbosity != "normal" else {}
    return {**entries, **loudness, **{name: table for name, table in tables.items() if table}}


def _options(settings: dict[str, Any], name: str) -> Any:
    """Take options of plugins out of the settings, for a table of their own; what TOML can't say stays, as JSON."""
    plugin_options = settings.pop(name, {})
    options = json.loads(plugin_options) if isinstance(plugin_options, str) else plugin_options
    if "null" not in (text := json.dumps(options)):
        return _as_toml(options)
    settings[name] = text
    return {}


@dataclass(frozen=True)
class _Place:
    """A file's text, to say in which line something is."""

    path: Path
    text: str

    @property
    def folder(self) -> Path:
        return self.path.absolute().parent

    def error(self, key: str, sentence: str, table: str = "") -> ConfigurationError:
        return ConfigurationError(f"{self.path}, line {self._line_of(key, table)}: {sentence}")

    def _line_of(self, key: str, table: str) -> int:
        """Find the first line that gives this key in this table, or begins a table of this name; 1 where none shows."""
        spelled = re.escape(key).replace("\\-", "[-_]").replace("_", "[-_]")
        within = ""
        for number, line in enumerate(self.text.splitlines(), start=1):
            if header := re.match(r"\s*\[+([^\]]+)\]", line):
                within = header[1].strip()
                if not table and re.fullmatch(rf"{spelled}(\..*)?", within):
                    return number
            elif within == table and re.match(rf"\s*[\"']?{spelled}[\"']?\s*[=.]", line):
                return number
        return 1


def _fields_of(table: Mapping[str, Any], place: _Place) -> dict[str, Any]:
    values = {option: table[key] for key, option in _OPTIONS.items() if key in table}
    fields = {option.name: _checked(option, value, place) for option, value in values.items()}
    if "encode" in table:
        fields["encode"] = {name: _of_kind(name, kind, str, place, "encode") for name, kind in table["encode"].items()}
    return _rooted(fields, place.folder)


def _checked(option: Declared, value: Any, place: _Place) -> Any:
    """Check a value of the kind that an option has; names may be a list, or a text as on the command line."""
    entry = option.read(value) if option.kind == tuple[str, ...] and isinstance(value, str) else value
    if option.kind == float | None and isinstance(entry, int) and not isinstance(entry, bool):
        entry = float(entry)
    checked = _of_kind(option.key, entry, str if option.kind is Path else option.kind, place)
    return Path(checked) if option.kind is Path else tuple(checked) if isinstance(checked, list) else checked


def _of_kind(key: str, value: Any, kind: Any, place: _Place, table: str = "") -> Any:
    if not fits(value, kind):
        raise place.error(key, f"{key} takes {in_words(kind)}, got {value!r}.", table)
    return value


def _settings_of(table: Mapping[str, Any], place: _Place) -> dict[str, Any]:
    settings = by_present_names(table.get("settings", {}))
    for name in settings:
        if name not in Settings.model_fields:
            hint = did_you_mean(name, Settings.model_fields) or " See `plumbline serve --help` for the list."
            raise place.error(name, f"there is no setting {name!r}.{hint}", "settings")
    settings = _rooted(settings, place.folder)
    for key in (*_SETTINGS, "attack-options", "defence-options"):
        name = key.replace("-", "_")
        if key in table and name in settings:
            raise place.error(key, f"{key} stands here and in [settings]: drop one of them.")
        if key in table:
            settings[name] = table[key]
    return settings


def _rooted(values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Fields or settings, with every relative path in them begun at a folder."""
    # With columns to split by, data names a file.
    paths = {"active", "passive", "runs", *(["data"] if values.get("active_columns") else [])}
    paths |= {name for name, known in Settings.model_fields.items() if known.annotation in (Path, Path | None)}
    return {name: _from(folder, value) if name in paths else value for name, value in values.items()}


def _from(folder: Path, value: Any) -> Any:
    """Begin a path, or several, at a folder. A database's URL, and what isn't given, stay as they are."""
    if isinstance(value, tuple):
        return tuple(_from(folder, one) for one in value)
    if value in ("", None) or "://" in str(value):
        return value
    return folder / value if isinstance(value, Path) else str(folder / value)


def _as_toml(value: Any) -> Any:
    """Write a value as TOML has it: no tuples and no paths."""
    if isinstance(value, Mapping):
        return {str(name): _as_toml(one) for name, one in value.items() if one is not None}
    if isinstance(value, list | tuple):
        return [_as_toml(one) for one in value]
    return str(value) if isinstance(value, Path) else value
