"""What children of a party inherit of its environment: what programs need to run, and nothing else.

A party's own has secrets in it: the URL of a database with its password, among the settings or in variables of others.
Whoever may look into a child's environment should find none of that.
"""

import os

_NAMES = frozenset({"PATH", "HOME", "LANG", "TZ", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "VIRTUAL_ENV"})
_PREFIXES = ("PYTHON", "LD_", "DYLD_", "LC_")


def child_environment(*prefixes: str) -> dict[str, str]:
    """Collect the variables that a child of this process gets.

    Args:
        prefixes: of further variables that this child needs.
    """
    wanted = (*_PREFIXES, *prefixes)
    return {name: value for name, value in os.environ.items() if name in _NAMES or name.startswith(wanted)}
