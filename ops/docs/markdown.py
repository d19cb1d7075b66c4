"""Tables of a Markdown page."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table that ends with a line break; each cell becomes one line."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(_cell(text) for text in line)} |\n" for line in lines)


def codes(names: Iterable[str]) -> str:
    """Names as code, separated by commas, or a dash if there are none."""
    return ", ".join(f"`{name}`" for name in names) or "–"


def _cell(text: str) -> str:
    # A bar starts the next cell, even within code.
    return " ".join(text.split()).replace("|", "\\|")
