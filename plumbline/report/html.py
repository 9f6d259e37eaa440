"""The product's HTML pages: templates in ``plumbline/templates``."""

import base64
import hashlib
from dataclasses import dataclass
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, Template, select_autoescape
from markupsafe import Markup

from plumbline.charts.drawings import cut
from plumbline.telling.document import LIGHT_WORDS, Table
from plumbline.telling.numbers import hundredths, percent, seconds
from services.common.words import escaped_lines


def _visible(value: Any) -> Any:
    """Write out what a browser obeys although it is no markup: characters that turn the direction of text."""
    is_text = isinstance(value, str) and not isinstance(value, Markup)
    return escaped_lines(value, _MOST_SHOWN) if is_text else value


@dataclass(frozen=True)
class Asset:
    """A style sheet or script of ours, to stand within a page.

    Attributes:
        text: as it is.
        hash: what a page's Content-Security-Policy names it by.
    """

    text: Markup
    hash: str


# Of a line in a page; a plot is markup, and longer.
_MOST_SHOWN = 20_000


def environment(*packages: str) -> Environment:
    """Make what makes pages of the templates of these packages, and of the product's, on which they may build.

    ``asset(name)`` within a template reads a style sheet or script that stands beside them.
    """
    loader = ChoiceLoader([PackageLoader(package) for package in (*packages, "plumbline")])
    templates = Environment(
        loader=loader,
        autoescape=select_autoescape(default=True),
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )

    def asset(name: str) -> Asset:
        text = loader.get_source(templates, name)[0]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        return Asset(Markup(text), f"sha256-{digest}")  # noqa: S704 - our own file

    templates.globals |= {"asset": asset, "Table": Table.of, "light_words": LIGHT_WORDS}
    templates.filters |= {"cut": cut, "percent": percent, "hundredths": hundredths, "seconds": seconds}
    return templates


_ENVIRONMENT = environment()


def template(name: str) -> Template:
    """Load one of the pages in ``plumbline/templates``."""
    return _ENVIRONMENT.get_template(name)
