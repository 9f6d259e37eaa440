"""A page as a tree of elements, read by the standard library's parser alone."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset(("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"))


@dataclass
class Element:
    """One element with its attributes, children and own text, in the page's order."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list["Element | str"] = field(default_factory=list)

    def all(self, tag: str = "", **attributes: str) -> Iterator["Element"]:
        """Elements below this one of a tag and with these attributes; ``class_`` names one of several classes."""
        wanted_class = attributes.pop("class_", "")
        for child in self.children:
            if isinstance(child, str):
                continue
            fits = tag in ("", child.tag) and all(
                child.attributes.get(key) == value for key, value in attributes.items()
            )
            if fits and (not wanted_class or wanted_class in child.attributes.get("class", "").split()):
                yield child
            yield from child.all(tag, **attributes, **({"class_": wanted_class} if wanted_class else {}))

    def one(self, tag: str = "", **attributes: str) -> "Element":
        """The first such element; LookupError for none."""
        found = next(self.all(tag, **attributes), None)
        if found is None:
            raise LookupError(f"No <{tag}> with {attributes}.")
        return found

    @property
    def text(self) -> str:
        """All text within, spaces and line ends as one space."""
        parts = [child if isinstance(child, str) else child.text for child in self.children]
        return " ".join(" ".join(parts).split())


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("page")
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {key: value or "" for key, value in attrs})
        self._open[-1].children.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].tag == tag, f"</{tag}> closes <{self._open[-1].tag}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)


def parsed(page: str) -> Element:
    """Read a page; AssertionError where an element is closed that isn't open."""
    reader = _Reader()
    reader.feed(page)
    assert reader._open == [reader.root], f"<{reader._open[-1].tag}> is never closed"
    return reader.root
