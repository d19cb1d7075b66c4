"""`tally conflicts`: receipts that bear a number used before; list them, accept them."""

from dataclasses import asdict
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from ops.cli.options import JsonOption
from runtime.process.output import print_json, print_note
from tally.config.settings import Settings
from tally.errors import TallyError
from tally.events.tills import has_restarted_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ops.conflicts import TillConflicts


def register(app: typer.Typer) -> None:
    """Add the verb group to the command line."""
    group = typer.Typer(
        help="Receipts of a number that was used before: list, accept.", no_args_is_help=True
    )
    group.command("list")(list_conflicts)
    group.command("accept")(accept_conflicts)
    app.add_typer(group, name="conflicts")


def list_conflicts(
    store: Annotated[str, typer.Option(help="only of this store")] = "",
    every: Annotated[bool, typer.Option("--all", help="those that were accepted, too")] = False,
    json: JsonOption = False,
) -> None:
    """Days and tills that are not final because of conflicts; each receipt is a dead letter."""
    from ops.conflicts import till_conflicts
    from runtime.connect import cassandra_session

    with cassandra_session(Settings.load()) as session:
        found = [
            conflict
            for conflict in till_conflicts(session)
            if store in ("", conflict.store_id) and (every or conflict.is_open)
        ]
    _print(found, json)
    if found and not json:
        print_note("`tally dead-letters list --reason conflict` has the receipts")


def accept_conflicts(
    store: Annotated[str, typer.Argument(help="its id")],
    day: Annotated[datetime, typer.Argument(formats=["%Y-%m-%d"], help="UTC day of the receipts")],
    reason: Annotated[str, typer.Option(help="why they may stand, kept with them")],
    till: Annotated[str, typer.Option(help="only of this till")] = "",
    json: JsonOption = False,
) -> None:
    """Let the first receipt of each number stand, and the day be final.

    What a later rebuild finds more has to be accepted again.
    \f
    Raises TallyError where no conflict is open.
    """
    from ops.conflicts import accept, till_conflicts
    from runtime.connect import cassandra_session

    with cassandra_session(Settings.load()) as session:
        wanted = [
            conflict
            for conflict in till_conflicts(session)
            if conflict.is_open
            and (conflict.store_id, conflict.day) == (store, str(day.date()))
            and till in ("", conflict.till_id)
        ]
        if not wanted:
            raise TallyError(_none_open(store, day.date(), till))
        accepted = accept(session, wanted, reason, datetime.now(UTC))
    _print(accepted, json)


def _none_open(store: str, day: date, till: str) -> str:
    where = f"store {store}{f', till {till}' if till else ''}, {day}"
    return f"{where}: no conflict is open; `tally conflicts list` names those there are"


def _print(conflicts: "Sequence[TillConflicts]", is_json: bool) -> None:
    if is_json:
        shown = [{**asdict(conflict), "is_open": conflict.is_open} for conflict in conflicts]
        print_json({"conflicts": shown})
        return
    table = Table(
        Column("store", no_wrap=True),
        "till",
        Column("day", no_wrap=True),
        "conflicts",
        "of records",
        "accepted",
        "what to do",
        title=f"{len(conflicts):,} tills and days with conflicts",
    )
    for conflict in conflicts:
        counts = (f"{conflict.conflicts:,}", f"{conflict.records:,}", f"{conflict.accepted:,}")
        # Text, not markup: the names come from tills and people.
        names = (Text(conflict.store_id), Text(conflict.till_id), conflict.day)
        table.add_row(*names, *counts, Text(_advice(conflict)))
    Console().print(table)


def _advice(conflict: "TillConflicts") -> str:
    if not conflict.is_open:
        return conflict.reason
    if has_restarted_numbers(conflict.records, conflict.conflicts):
        return "`numbering: daily` or `yearly` in the stores file, then `tally rebuild`"
    accepting = f"`tally conflicts accept {conflict.store_id} {conflict.day} --reason …`"
    return f"send what is missing under another number, then {accepting}"
