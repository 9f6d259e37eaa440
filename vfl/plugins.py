"""Named plugins: an explicit dict of what is built in, plus what other packages offer under an entry-point group."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any


@dataclass(frozen=True)
class PluginRegistry:
    """Plugins of one kind; each is a frozen dataclass whose fields are its options.

    built_in: name -> "module:class". Modules are imported when a plugin is loaded: some need torch, which services
    start without. unknown: the ValueError that a name which nothing has raises, with the list of those there are.
    """

    kind: str
    entry_point_group: str
    built_in: Mapping[str, str]
    unknown: type[ValueError]

    def names(self) -> tuple[str, ...]:
        """Names of all plugins, built in and installed, sorted."""
        installed = (point.name for point in entry_points(group=self.entry_point_group))
        return tuple(sorted({*self.built_in, *installed}))

    def class_of(self, name: str) -> Any:
        """The class behind a name; raises ``unknown``."""
        if name in self.built_in:
            module, _, attribute = self.built_in[name].partition(":")
            return getattr(import_module(module), attribute)
        for point in entry_points(group=self.entry_point_group):
            if point.name == name:
                return point.load()
        raise self.unknown(f"Unknown {self.kind} {name!r}. Known: {', '.join(self.names())}.")

    def load(self, name: str, **options: Any) -> Any:
        """A plugin by name, with its options; raises ``unknown``, or ValueError for an option it doesn't have."""
        chosen = self.class_of(name)
        try:
            return chosen(**options)
        except TypeError as error:
            known = ", ".join(field.name for field in fields(chosen) if field.init) or "none"
            raise ValueError(f"{name} can't take {', '.join(options)}: {error}. Its options: {known}.") from error
