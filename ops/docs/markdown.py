"""Tables of a Markdown page."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with its last line's end; a cell is one line."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(_cell(text) for text in line)} |\n" for line in lines)


def codes(names: Iterable[str]) -> str:
    """Names as code with commas between, or a dash for none."""
    return ", ".join(f"`{name}`" for name in names) or "–"


def _cell(text: str) -> str:
    # A bar would begin the next cell, in code too.
    return " ".join(text.split()).replace("|", "\\|")
