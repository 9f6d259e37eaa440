"""What the site adds to the pages of docs/: reference pages made from the code, and the project's own root pages.

Nothing here is a list of modules, commands or settings: what is there when the site is built is on the site.
"""

import importlib
import inspect
import re
import tomllib
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from nbconvert import MarkdownExporter

from plumbline.cli import app
from plumbline.cli.examples import split
from services.common.settings import PREFIX, Settings

ROOT = Path(__file__).parents[2]
# Pages whose source is beside docs/, where a code host looks for them.
ROOT_PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "LICENSE": "licence.md"}
NOTEBOOK, NOTEBOOK_PAGE = "examples/own_data_frames.ipynb", "tutorials/own_data_frames.md"
PYTHON = "reference/python/"
# The packages whose exported names are promised; what their modules hold besides is private.
FRONT_DOORS = ("plumbline", "attacks", "defences", "vfl.crypto", "vfl.data", "vfl.learning")
# A table whose rows become blocks on a phone (extra.css).
_TABLE = '<div class="options" markdown>\n\n| {} | meaning |\n|---|---|'


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made here, and put them where the navigation of mkdocs.yml asks for a folder."""
    pages = {target: _root_page(source) for source, target in ROOT_PAGES.items()}
    pages |= {_page_of(module): _module_page(module) for module in _modules()}
    pages["reference/public.md"] = _filled("reference/public.md", "public", "\n\n".join(_public()))
    pages["reference/messages.md"] = _filled("reference/messages.md", "messages", _messages())
    pages["reference/settings.md"] = _filled("reference/settings.md", "settings", _settings())
    pages["reference/command-line.md"] = _filled("reference/command-line.md", "commands", "\n".join(_commands()))
    pages |= _notebook_pages()
    for path, content in pages.items():
        if (written := files.get_file_from_path(path)) is not None:
            files.remove(written)
        files.append(File.generated(config, path, content=content))
    config.nav = _expanded(config.nav, [file.src_uri for file in files.documentation_pages()])
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Links to root pages, right on a code host, become links to their copies on the site.

    A link to what `plumbline new` writes becomes its text, on a line of its own, and its name within one.
    """
    up = "../" * page.file.src_uri.count("/")
    template = rf"\[([^\]]*)\]\({re.escape(up)}\.\./(plumbline/templates/new/[\w.]+)\)"
    markdown = re.sub(
        rf"^{template}$", lambda link: f"```python\n{(ROOT / link[2]).read_text()}```", markdown, flags=re.MULTILINE
    )
    markdown = re.sub(template, r"\1", markdown)
    for source, target in (ROOT_PAGES | {NOTEBOOK: NOTEBOOK_PAGE}).items():
        markdown = markdown.replace(f"]({up}../{source}", f"]({up}{target}")
    return markdown


def on_page_content(html: str, **_: Any) -> str:
    """A drawing is a link to itself: it scrolls on a phone, and who has no mouse can get there."""
    return re.sub(r'<p>(<img [^>]*src="([^"]+\.svg)"[^>]*>)</p>', r'<p><a href="\2">\1</a></p>', html)


# -- navigation --------------------------------------------------------------------------------------------------------


def _expanded(entries: Any, pages: list[str]) -> Any:
    """The navigation with each entry that ends in / replaced by the pages of that folder."""
    if isinstance(entries, dict):
        return {title: _expanded(inner, pages) for title, inner in entries.items()}
    if isinstance(entries, str):
        return _folder(entries, pages) if entries.endswith("/") else entries
    inner = [_expanded(entry, pages) for entry in entries]
    # A folder among pages becomes its pages.
    return [one for entry in inner for one in (entry if isinstance(entry, list) else [entry])]


def _folder(folder: str, pages: list[str]) -> list[Any]:
    """The pages below ``folder``: its index first, then pages and folders in the order of their names."""
    below = sorted(page for page in pages if page.startswith(folder))
    index = [page for page in below if page.removeprefix(folder) in ("index.md", "README.md")]
    names = dict.fromkeys(page.removeprefix(folder).split("/")[0] for page in below if page not in index)
    inner = [_child(folder, name, pages) for name in names]
    return [*index, *inner]


def _child(folder: str, name: str, pages: list[str]) -> Any:
    if not name.endswith(".md"):
        return {name: _folder(f"{folder}{name}/", pages)}
    # A page of prose has a title of its own; a module is called by its name.
    return {name.removesuffix(".md"): folder + name} if folder.startswith(PYTHON) else folder + name


# -- pages of the project's root ---------------------------------------------------------------------------------------


def _root_page(name: str) -> str:
    text = (ROOT / name).read_text()
    if not name.endswith(".md"):
        return f"# Licence\n\n```text\n{text}\n```\n"
    text = text.replace("](docs/", "](")
    for source, target in ROOT_PAGES.items():
        text = text.replace(f"]({source}", f"]({target}")
    return text


def _filled(path: str, marker: str, content: str) -> str:
    """A committed page with its marker replaced by what is generated."""
    text, marked = (ROOT / "docs" / path).read_text(), f"<!-- generated: {marker} -->"
    if marked not in text:
        raise ValueError(f"docs/{path} lacks the line {marked}, where the site puts what it generates.")
    return text.replace(marked, content)


# -- the notebook ------------------------------------------------------------------------------------------------------


def _notebook_pages() -> dict[str, str | bytes]:
    """The notebook of examples/ as a page, with what its cells printed and drew when docs/site/pictures ran it."""
    text, made = MarkdownExporter().from_filename(ROOT / NOTEBOOK)
    text = text.replace("![png]", "![What the cell above draws]").replace("white-space:pre;", "white-space:pre-wrap;")
    return {NOTEBOOK_PAGE: text, **{f"tutorials/{name}": one for name, one in made["outputs"].items()}}


# -- Python ------------------------------------------------------------------------------------------------------------


def _modules() -> Iterator[str]:
    """Every module of the wheel's packages but the generated stubs, parents first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for package in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        for path in sorted((ROOT / package).rglob("*.py")):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            generated = "_pb2" in path.name
            nothing_to_show = path.name == "__init__.py" and not path.read_text().strip()
            if not (generated or nothing_to_show or module.endswith("__main__")):
                yield module


def _page_of(module: str) -> str:
    path = Path(*module.split("."))
    return PYTHON + (f"{path}/index.md" if (ROOT / path).is_dir() else f"{path}.md")


def _module_page(module: str) -> str:
    return f"# `{module}`\n\n::: {module}\n"


def _public() -> Iterator[str]:
    """What each front door exports: a table of names, each with the first line that is said of it."""
    for package in FRONT_DOORS:
        door = importlib.import_module(package)
        page = _page_of(package).removeprefix("reference/")
        rows = [f"## [`{package}`]({page})\n\n{_first_line(door)}\n\n| name | |\n|---|---|"]
        for name in sorted(door.__all__, key=str.lower):
            one = getattr(door, name)
            if inspect.isroutine(one) or inspect.isclass(one):
                rows.append(f"| [`{name}`][{one.__module__}.{one.__qualname__}] | {_cell(_first_line(one))} |")
        yield "\n".join(rows)


def _first_line(one: object) -> str:
    return (inspect.getdoc(one) or "").partition("\n")[0]


# -- messages, settings, commands --------------------------------------------------------------------------------------


def _messages() -> str:
    sources = sorted((ROOT / "protos").rglob("*.proto"))
    return "\n\n".join(f"## {path.stem}\n\n```protobuf\n{path.read_text().strip()}\n```" for path in sources)


def _settings() -> str:
    rows = [_TABLE.format("variable")]
    for name, field in Settings.model_fields.items():
        facts = [str(field.description)]
        if get_origin(field.annotation) is Literal:
            facts.append("One of " + ", ".join(f"`{choice}`" for choice in get_args(field.annotation)) + ".")
        default = field.get_default(call_default_factory=True)
        if default or default == 0:
            facts.append(f"Default: `{str(default).lower() if isinstance(default, bool) else default}`.")
        rows.append(f"| `{PREFIX}{name.upper()}` | {_cell(' '.join(facts))} |")
    return "\n".join([*rows, "\n</div>"])


def _commands() -> Iterator[str]:
    root = typer.main.get_command(app)
    yield from _command(root, typer.Context(root, info_name="plumbline"))


def _command(command: Any, context: Any) -> Iterator[str]:
    """A command's help as it prints it, and that of the commands below it."""
    text, examples = split(command.help or "")
    if context.parent is not None:
        yield f"\n### {context.command_path}\n"
    yield f"{text}\n"
    if examples:
        yield f"```console\n{examples}\n```\n"
    records = [record for parameter in command.get_params(context) if (record := parameter.get_help_record(context))]
    if len(records) > 1:  # --help is everywhere
        yield _TABLE.format("option")
        yield from (
            f"| `{' '.join(name.split())}` | {_cell(meaning)} |" for name, meaning in records if name != "--help"
        )
        yield "\n</div>"
    if (command.epilog or "").startswith("Settings are"):
        yield "\nIts settings are environment variables: [all of them](settings.md)."
    for name, inner in getattr(command, "commands", {}).items():
        yield from _command(inner, typer.Context(inner, info_name=name, parent=context))


def _cell(text: str) -> str:
    """Text for a cell of a table. Code in it stays as it is: there a | is no end of the cell."""
    parts = " ".join(text.split()).split("`")
    parts[::2] = [escape(part, quote=False).replace("|", "\\|") for part in parts[::2]]
    return "`".join(parts)
