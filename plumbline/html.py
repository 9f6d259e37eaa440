"""The product's HTML pages: templates in ``plumbline/templates``."""

from typing import Any

from jinja2 import Environment, PackageLoader, Template, select_autoescape
from markupsafe import Markup

from services.common.words import escaped_lines


def _visible(value: Any) -> Any:
    """Write out what a browser obeys although it is no markup: characters that turn the direction of text."""
    is_text = isinstance(value, str) and not isinstance(value, Markup)
    return escaped_lines(value, _MOST_SHOWN) if is_text else value


# Of a line in a page; a plot is markup, and longer.
_MOST_SHOWN = 20_000
_ENVIRONMENT = Environment(
    loader=PackageLoader("plumbline"),
    autoescape=select_autoescape(default=True),
    trim_blocks=True,
    lstrip_blocks=True,
    finalize=_visible,
)


def template(name: str) -> Template:
    """One of the pages in ``plumbline/templates``."""
    return _ENVIRONMENT.get_template(name)
