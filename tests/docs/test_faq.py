"""The page of messages quotes what the product says."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_quoted_message_is_in_the_product() -> None:
    # Sentences are folded over lines of source.
    sources = [path.read_text() for room in ("services", "plumbline", "vfl") for path in (ROOT / room).rglob("*.py")]
    said = re.sub(r"\"\s*\n\s*f?\"", "", "\n".join(sources))
    rows = re.findall(r"^\| (.+?) \|", (ROOT / "docs" / "faq.md").read_text(), re.MULTILINE)
    quoted = [
        part for row in rows if not row.startswith(("it says", "-")) for part in re.findall(r"[`*]([^`*]+)[`*]", row)
    ]
    assert len(quoted) > 20
    missing = [
        part for part in quoted if part not in said and not re.search(re.sub(r"\\ \d+\\ ", ".*", re.escape(part)), said)
    ]
    assert not missing
