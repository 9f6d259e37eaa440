"""The rules of the house: which way imports point, no circles, who knows gRPC, names, arguments, docstrings."""

import ast
import io
import re
import statistics
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, get_args

import pytest

from attacks.base import Knowledge
from attacks.registry import REGISTRY as ATTACKS
from defences.registry import REGISTRY as DEFENCES

ROOT = Path(__file__).parents[2]
# Each may import itself, the wire (services and plumbline) and what is listed here.
ARROWS: dict[str, set[str]] = {
    "vfl": set(),
    "attacks": {"vfl"},
    "defences": {"vfl"},
    "services": {"attacks", "defences", "protos", "vfl"},
    "plumbline": {"attacks", "defences", "protos", "services", "vfl"},
    "studies": {"attacks", "defences", "plumbline", "protos", "services", "vfl"},
}
# Within services: those that are the network, and those that start and stop servers on it.
GRPC = {
    "bootstrap",
    "call_meter",
    "callers",
    "coordinator_link",
    "dialing",
    "examination",
    "gate",
    "health",
    "health_link",
    "message_link",
    "passive_link",
    "revocation",
    "serving_link",
    "server",
    "servicer",
    "statuses",
    "transport",
}
# Roles mirror each other, and so do studies.
MIRRORED = {
    "services": {"party.py", "server.py", "servicer.py"},
    "studies": {"page.py", "statements.py", "study.py", "trade_offs.py"},
}
# A file is as long as its one subject. From 400 lines on look whether there are two; beyond this it is listed, and why.
MOST_LINES = 600
LONGER: dict[str, str] = {}
# Who names an attack or a defence beside its registry, and why: all else works by what a plugin says of itself.
NAMING_PLUGINS = {
    "plumbline/cli/preflight.py": "says what to do, with an example",
    "services/common/plan_settings.py": "shows how options are written, with an example",
    "services/common/settings.py": "shows how options are written, with an example",
    "services/protocols/hu/guard.py": "says what to do, with an example",
    "services/party/party_defences.py": "says what to do, with an example",
    "services/party/share_guard.py": "says what to do, with an example",
}
# A class that is longer has several subjects: split it by these, not into parts of one.
MOST_LINES_OF_A_CLASS = 320
MOST_LINES_OF_A_FUNCTION = 80
# So many lines of code that stand twice are one function, or one table.
MOST_LINES_TWICE = 9
_NO_CODE = re.compile(r'"""[\s\S]*?"""|^(?:from \S+ )?import (?:\([^)]*\)|.*)|^\s*#.*', re.M)
# What tells a person of findings.
TELLERS = (
    *(f"plumbline/telling/{name}.py" for name in ("document", "numbers")),
    *(
        f"plumbline/judge/{name}.py"
        for name in ("answer", "first_screen", "glance", "residual_risk", "sentences", "session_sentences")
    ),
    *(f"plumbline/report/{name}.py" for name in ("annex", "cards", "ledger", "page", "party_report", "run_tables")),
    *("plumbline/audit/console.py", "plumbline/notebook.py"),
    *("plumbline/received/received_annex.py", "plumbline/received/received_page.py"),
)
MOST_LINES_THAT_TELL = 2_452
# Where shares become words.
NUMBERS = "plumbline/telling/numbers.py"
MOST_ARGUMENTS, MOST_LINES_OF_THE_MEDIAN_FUNCTION = 7, 8
# Names that say nothing of what they name, so that a reader keeps it in the head.
PRONOUNS = re.compile(
    "one|found|told|at|others|known|kept|shown|asked|chosen|held|made|given|own|some|whole|words|said|read|left|seen|taken|"
    "drawn|mounted|joined|judged|counted|answered"
)
# In percent of all names that the product binds. It only goes down: whoever renames some lowers it.
MOST_PRONOUNS = 1.0
# Commands of the terminal: an argument per option.
COMMANDS = ("plumbline/cli/", "studies/cli/")
# Beside the packages: what is read and run from a checkout.
TOOLS = ("examples", "scripts", "docs/site")


def files_of(*packages: str) -> list[Path]:
    return [path for package in packages for path in sorted((ROOT / package).rglob("*.py"))]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports_of(path: Path) -> Iterator[str]:
    """Absolute names of the modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            # Both: what is imported may be a module.
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def imported_files() -> dict[str, set[str]]:
    """The files of the packages, as dotted names, each with those that it imports."""
    dotted = {
        name_of(path).removesuffix(".py").replace("/", ".").removesuffix(".__init__"): path
        for path in files_of(*ARROWS)
    }

    def file_of(name: str) -> str:
        while name and name not in dotted:
            name = name.rpartition(".")[0]
        return name

    return {one: {file_of(name) for name in imports_of(path)} - {one, ""} for one, path in dotted.items()}


def circles_in(graph: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """Groups of nodes that all reach each other."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        found, ahead = set(), [*graph[start]]
        while ahead:
            if (node := ahead.pop()) not in found:
                found.add(node)
                ahead.extend(graph.get(node, ()))
        reached[start] = found
    return {
        frozenset(other for other in reached[node] if node in reached[other])
        for node in reached
        if node in reached[node]
    }


class Definition(NamedTuple):
    """A class or function of a file; public unless it or what it stands in is private or a function."""

    file: str
    node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    public: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.node.lineno} {self.node.name}"


def definitions_in(*packages: str) -> Iterator[Definition]:
    for path in files_of(*packages):
        yield from _definitions(ast.parse(path.read_text()), name_of(path), public=True)


def _definitions(node: ast.AST, file: str, *, public: bool) -> Iterator[Definition]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            shown = public and not child.name.startswith("_")
            yield Definition(file, child, shown)
            yield from _definitions(child, file, public=shown and isinstance(child, ast.ClassDef))
        else:
            yield from _definitions(child, file, public=public)


def arguments_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    listed = function.args
    names = [argument.arg for argument in (*listed.posonlyargs, *listed.args, *listed.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


@pytest.mark.parametrize("package", ARROWS)
def test_arrows_point_one_way(package: str) -> None:
    others = {*ARROWS, "protos", "tests"} - ARROWS[package] - {package}
    wrong = [
        f"{name_of(path)} imports {name}"
        for path in files_of(package)
        for name in imports_of(path)
        if name.split(".")[0] in others
    ]
    assert not wrong


def test_honest_services_know_nothing_of_attacks() -> None:
    """An adversary takes its seat beside an honest side: what it does and hears stands in a room of its own.

    That room is known by who hosts it, the two roles, and by nobody who trains.
    """

    def knowing(module: str) -> set[str]:
        return {
            name_of(path).split("/")[1]
            for path in files_of("services")
            if any(f"{name}.".startswith(f"{module}.") for name in imports_of(path))
        }

    assert knowing("attacks") == {"adversary"}
    assert knowing("services.adversary") == {"adversary", "active", "passive"}


def test_only_the_network_knows_grpc() -> None:
    knowing = {
        path
        for path in files_of(*ARROWS)
        # Generated stubs and servicers are the network as well; generated messages are not.
        if any(name.split(".")[0].startswith("grpc") or "_pb2_grpc" in name for name in imports_of(path))
    }
    services = {path for path in knowing if name_of(path).startswith("services/")}
    # Equal: who no longer needs gRPC leaves the list.
    assert {path.stem for path in services} == GRPC
    assert {name_of(path) for path in knowing - services} == {"plumbline/federation.py"}


@pytest.mark.parametrize("package", ARROWS)
def test_no_file_name_twice_in_a_package(package: str) -> None:
    found = defaultdict(list)
    for path in files_of(package):
        if path.name != "__init__.py" and path.name not in MIRRORED.get(package, ()):
            found[path.name].append(name_of(path))
    assert not [paths for paths in found.values() if len(paths) > 1]


def test_files_are_short_enough_to_read() -> None:
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in files_of(*ARROWS, "tests")}
    assert {name for name, lines in lengths.items() if lines > MOST_LINES} == set(LONGER)


def test_classes_have_one_subject() -> None:
    assert not [
        str(one)
        for one in definitions_in(*ARROWS)
        if isinstance(one.node, ast.ClassDef)
        and (one.node.end_lineno or 0) - one.node.lineno + 1 > MOST_LINES_OF_A_CLASS
    ]


def test_no_function_is_longer_than_a_screen() -> None:
    assert not [
        str(one)
        for one in definitions_in(*(ARROWS.keys() - {"studies"}))
        if isinstance(one.node, ast.FunctionDef)
        and (one.node.end_lineno or 0) - one.node.lineno + 1 > MOST_LINES_OF_A_FUNCTION
    ]


def test_no_ten_lines_of_code_stand_twice() -> None:
    """Docstrings, imports and comments apart, and lines of brackets alone."""
    places = defaultdict(list)
    for path in files_of(*(ARROWS.keys() - {"studies"})):
        lines = [line.strip() for line in _NO_CODE.sub("", path.read_text()).splitlines() if re.search(r"\w", line)]
        for at in range(len(lines) - MOST_LINES_TWICE):
            places["\n".join(lines[at : at + MOST_LINES_TWICE + 1])].append(name_of(path))
    assert not {lines: files for lines, files in places.items() if len(files) > 1}


def test_no_circle_of_files() -> None:
    assert not list(circles_in(imported_files()))


def test_no_circle_of_folders() -> None:
    """In each folder its subfolders, each whole, and its own modules, taken together, import each other one way.

    So a room that is built on its parent's modules is nothing that these modules are built on. The parent's front door
    (``__init__``, ``__main__``) doesn't count: it shows what is within, and the rule for files says who may use it.
    """
    graph = imported_files()
    folders = {name_of(path.parent).replace("/", ".") for path in files_of(*ARROWS)}
    found = set()
    for folder in folders:

        def room_of(name: str, folder: str = folder) -> str:
            first = name.removeprefix(f"{folder}.").split(".")[0]
            return first if f"{folder}.{first}" in folders else "itself"

        rooms: dict[str, set[str]] = defaultdict(set)
        for name, imported in graph.items():
            if name.startswith(f"{folder}.") and name != f"{folder}.__main__":
                inside = {room_of(one) for one in imported if one.startswith(f"{folder}.")}
                rooms[room_of(name)] |= inside - {room_of(name)}
        if circles_in(rooms):
            found.add(folder)
    assert not found


def test_functions_take_few_arguments_and_are_short() -> None:
    many, lengths = [], []
    for one in definitions_in(*ARROWS, *TOOLS):
        if isinstance(one.node, ast.ClassDef):
            continue
        lengths.append((one.node.end_lineno or 0) - one.node.lineno + 1)
        excused = one.file.startswith(COMMANDS)
        if arguments_of(one.node) > MOST_ARGUMENTS and not excused:
            many.append(str(one))
    assert not many
    assert statistics.median(lengths) <= MOST_LINES_OF_THE_MEDIAN_FUNCTION


def bound_names(tree: ast.AST) -> Iterator[str]:
    """List names of variables, fields and parameters; those of comprehensions and lambdas end with their line."""
    brief: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.comprehension | ast.Lambda):
            brief.update(ast.walk(node.target if isinstance(node, ast.comprehension) else node.args))
    for node in ast.walk(tree):
        if node not in brief:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
            elif isinstance(node, ast.arg):
                yield node.arg


def test_bound_names_are_those_that_outlive_a_line() -> None:
    source = (
        "def f(one, *, told):\n    a = b = [own for own in (lambda at: at)(told)]\n    for seen, a.kept in b: one.x = 1"
    )
    assert sorted(bound_names(ast.parse(source))) == ["a", "b", "one", "seen", "told"]


def test_names_say_what_they_name() -> None:
    names = [
        name for path in files_of(*(ARROWS.keys() - {"studies"})) for name in bound_names(ast.parse(path.read_text()))
    ]
    assert 100 * sum(PRONOUNS.fullmatch(name) is not None for name in names) / len(names) <= MOST_PRONOUNS


@pytest.mark.parametrize("package", [*ARROWS, *TOOLS])
def test_everything_public_has_a_docstring(package: str) -> None:
    assert not [str(one) for one in definitions_in(package) if one.public and not ast.get_docstring(one.node)]


def test_studies_do_not_import_each_other() -> None:
    shared = {"claims", "cli", "figures", "measurements", "page", "simulation", "speed", "sweeping"}
    studies = {folder.name for folder in (ROOT / "studies").iterdir() if (folder / "__init__.py").exists()} - shared
    assert studies == {"defences", "hu", "jiang", "rassouli", "varasteh"}
    for path in files_of("studies"):
        own = path.relative_to(ROOT / "studies").parts[0]
        for name in imports_of(path):
            if name.startswith("studies."):
                study = name.split(".")[1]
                assert study not in studies - {own}, f"{name_of(path)} imports {name}"


def plugins_named_in(path: Path) -> set[str]:
    """Attacks and defences that a file names in a text, or imports; a plain word counts where it is the whole text."""
    names = {*ATTACKS.built_in, *DEFENCES.built_in} - set(get_args(Knowledge))
    modules = {place.partition(":")[0] for place in (*ATTACKS.built_in.values(), *DEFENCES.built_in.values())}
    tree = ast.parse(path.read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = {one for one in imports_of(path) if one.rpartition(".")[0] in modules}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            words = {word for word in re.findall(r"\w+", node.value) if "_" in word or word == node.value}
            found |= names & words
    return found


def test_no_plugin_is_named_but_in_its_registry() -> None:
    """A third party's attack or defence is equal to ours: no decision may hang on a name."""
    found = {name_of(path): plugins_named_in(path) for path in files_of("plumbline", "services")}
    assert {name for name, plugins in found.items() if plugins} == set(NAMING_PLUGINS)


def spoken_by_hand(path: Path) -> Iterator[str]:
    """Shares and percents that a file writes itself, in an f-string or a format."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.expr):
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.search(r"\{[^}]*%\}", node.value):
            yield f"{name_of(path)}:{node.lineno}"
        for part, after in pairwise(node.values) if isinstance(node, ast.JoinedStr) else ():
            unit = after.value if isinstance(after, ast.Constant) else ""
            if isinstance(part, ast.FormattedValue) and str(unit).lstrip(" ").startswith("%"):
                yield f"{name_of(path)}:{node.lineno}"
        if isinstance(node, ast.FormattedValue) and node.format_spec and ast.unparse(node.format_spec).endswith("%'"):
            yield f"{name_of(path)}:{node.lineno}"


def test_shares_are_said_in_one_module() -> None:
    """So that no two places say another number of the same share; pages say theirs by its filters."""
    assert not [one for path in files_of("plumbline") if name_of(path) != NUMBERS for one in spoken_by_hand(path)]
    assert list(spoken_by_hand(ROOT / NUMBERS))
    templates = sorted((ROOT / "plumbline" / "templates").rglob("*.html"))
    assert templates
    assert not [path for path in templates if "format(100" in path.read_text()]


def code_lines(path: Path) -> int:
    """Count the lines of a file that hold code: no docstring, comment or blank line."""
    text = path.read_text()
    docstrings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False)
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = [one for one in tokenize.generate_tokens(io.StringIO(text).readline) if one.type not in silent]
    return len({line for one in tokens for line in range(one.start[0], one.end[0] + 1)} - docstrings)


def test_what_tells_is_short() -> None:
    """Who wants to tell more takes a word of the document's, or has it say less of something else."""
    assert sum(code_lines(ROOT / name) for name in TELLERS) <= MOST_LINES_THAT_TELL


def test_unit_tests_mirror_the_tree() -> None:
    unit = ROOT / "tests" / "unit"
    folders = {path.parent.relative_to(unit) for path in unit.rglob("*.py")}
    assert not [folder.as_posix() for folder in folders if not (ROOT / folder).is_dir()]
    # As everywhere under tests/unit: what several tests share is imported from the harness.
    assert not list(unit.rglob("__init__.py"))
