"""Compiles the native kernel while Plumbline is installed, where there is a C compiler; goes on without where not."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags


class NativeKernelHook(BuildHookInterface):
    """Adds the compiled library to wheels, which are then for one platform; editable installs find it in the tree."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile and, for a wheel, take the library in. ``version`` is 'standard' or 'editable'."""
        compiling = _build_module(Path(self.root))
        try:
            library = compiling.build()
        except compiling.CompilationFailed as failed:
            self.app.display_warning(f"Plumbline is installed without its native kernel: {failed}.")
            return
        if version != "editable":
            # Git ignores it, and so would the wheel.
            build_data["artifacts"].append(library.relative_to(self.root).as_posix())
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{_platform()}"


def _build_module(root: Path) -> ModuleType:
    """`vfl.crypto.native.build` without the packages around it, whose dependencies aren't installed here."""
    spec = importlib.util.spec_from_file_location("plumbline_build", root / "vfl" / "crypto" / "native" / "build.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError("vfl/crypto/native/build.py is missing.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _platform() -> str:
    """Find the tag of this very machine: a library that was compiled here promises nothing about older systems."""
    return next(tag.platform for tag in sys_tags() if "manylinux" not in tag.platform and "musl" not in tag.platform)
