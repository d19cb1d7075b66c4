"""`python -m ingest.check`, the process behind `tally check`."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from ingest.check.bodies import CheckedMessage, check_file, sum_parts
from ingest.installation.arrival import Rules
from runtime.process.job import run_command
from runtime.process.output import print_json
from tally.config.settings import Settings
from tally.errors import RejectedEvent

_THOUSAND = 1000

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command("check")
def check(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="a body to be sent")
    ],
    form: Annotated[
        str,
        typer.Option(
            "--as", help="its path behind /v1/events/; by default receipts, of .xml POSLog"
        ),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """What FILE would count as, message by message and line by line; nothing is sent.

    The stores file and the settings of the gateway hold here too. Ends with 1 if anything would be
    refused.

    \f
    Raises TallyError for a form that there is not; Exit with the code.
    """
    try:
        messages = [*check_file(file, form or None, Rules.from_settings(Settings.load()))]
    except RejectedEvent as error:
        # Nothing of the body can be read.
        messages = [CheckedMessage.from_error(1, error)]
    if as_json:
        print_json(
            {"messages": [_to_json(message) for message in messages], "adds": sum_parts(messages)}
        )
    else:
        _print_table(messages)
    if any(message.reason for message in messages):
        raise typer.Exit(1)


def _to_json(message: CheckedMessage) -> dict[str, object]:
    fields = asdict(message).items()
    return {name: value for name, value in fields if value not in (None, {}, ())}


def _print_table(messages: Sequence[CheckedMessage]) -> None:
    columns = Column("", justify="right"), "event or line", "amount", "total", "adds"
    table = Table(*columns)
    for message in messages:
        # Text, not markup: the content comes from an unknown sender.
        head = Text(message.event_id or message.skipped or message.message or "")
        table.add_row(str(message.number), head, "", "", Text(_describe_result(message)))
        for line in message.lines:
            amount = f"{line['amount_milli'] / _THOUSAND:g}"
            item, adds = Text(f"  {line['item']}"), Text(_as_text(line["adds"]))
            table.add_row("", item, amount, str(line["total_minor"]), adds)
    Console().print(table)
    refused = sum(message.reason is not None for message in messages)
    counted = sum(message.event_id is not None for message in messages)
    together = _as_text(sum_parts(messages))
    print(f"{counted:,} would be taken, {refused:,} refused; together: {together}")


def _describe_result(message: CheckedMessage) -> str:
    if message.skipped:
        return "no event"
    return message.reason or message.rule or _as_text(message.adds)


def _as_text(adds: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {value:,}" for name, value in adds.items()) or "nothing"


def main() -> int:
    """Exit code: 0 all would be taken, 1 something would be refused, 2 wrong use."""
    return run_command("tally", lambda: app(prog_name="tally check"))


if __name__ == "__main__":
    sys.exit(main())
