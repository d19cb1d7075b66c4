"""Prints tables in a terminal."""

from collections.abc import Iterable


def print_table(names: Iterable[str], rows: Iterable[tuple[str, ...]]) -> None:
    """Print a table with these column names, one row a line."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*names)
    for row in rows:
        # Text, not markup: people have typed the names and titles.
        table.add_row(*map(Text, row))
    Console().print(table)
