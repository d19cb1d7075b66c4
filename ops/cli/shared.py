"""What several commands share: the option --json, tables and lines for people, the API's client."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from runtime.process.output import print_json
from tally.config.settings import Settings

if TYPE_CHECKING:
    from web.client import ApiClient

JsonOption = Annotated[bool, typer.Option("--json", help="print one JSON object")]
# Where a value is absent.
NOTHING = "–"
# The style of the tables of what the API answers.
PLAIN: Mapping[str, Any] = {"title_justify": "left", "box": SIMPLE_HEAD}


def api_client(caller: str) -> "ApiClient":
    """A client of the API of the settings, which the caller closes."""
    # Imported late, like everything that a verb needs, so that --help is quick.
    from web.client import ApiClient

    return ApiClient(Settings.load().api, caller)


def print_answer(as_json: bool, answer: Any, shown: Iterable[str] | Table) -> None:
    """Print the answer as one JSON object, else its lines, or its table, for people."""
    if as_json:
        print_json(answer)
    elif isinstance(shown, Table):
        Console().print(shown)
    else:
        for line in shown:
            print(line)


def build_table(
    columns: Iterable[str | Column], rows: Iterable[Iterable[str]], **style: Any
) -> Table:
    """A table with a row a line; `style` is what rich.table.Table takes beside columns."""
    table = Table(*columns, **style)
    for row in rows:
        # Text, not markup: people and unknown senders have typed the values.
        table.add_row(*map(Text, row))
    return table


def print_table(
    columns: Iterable[str | Column], rows: Iterable[Iterable[str]], **style: Any
) -> None:
    """Print a table as `build_table` makes it."""
    Console().print(build_table(columns, rows, **style))


def whole_column(name: str) -> Column:
    """A column whose values are shown whole in a narrow terminal too."""
    return Column(name, no_wrap=True)


def one_line(text: str) -> str:
    """The text without control characters, which could steer a terminal."""
    return text if text.isprintable() else ascii(text)


def value_text(value: Any) -> str:
    """A value of a file's or a record's field on one line; what is not set is left out."""
    if isinstance(value, Mapping):
        pairs = (f"{name} {value_text(part)}" for name, part in value.items() if part is not None)
        # A sensor with nothing but its serial has an empty value.
        return ", ".join(pair.rstrip() for pair in pairs)
    if isinstance(value, list):
        return ", ".join(map(value_text, value)) or NOTHING
    return NOTHING if value in (None, "") else str(value)
