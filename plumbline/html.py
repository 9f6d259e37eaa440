"""The product's HTML pages: templates in ``plumbline/templates``."""

from jinja2 import Environment, PackageLoader, Template, select_autoescape

_ENVIRONMENT = Environment(
    loader=PackageLoader("plumbline"), autoescape=select_autoescape(default=True), trim_blocks=True, lstrip_blocks=True
)


def template(name: str) -> Template:
    """One of the pages in ``plumbline/templates``."""
    return _ENVIRONMENT.get_template(name)
