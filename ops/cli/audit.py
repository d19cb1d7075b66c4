"""`tally audit`: nothing lost, nothing counted twice, every served number as the oracle says."""

import sys
from datetime import date
from typing import TYPE_CHECKING, Annotated

import typer

from ops.cli.shared import JsonOption
from runtime.process.output import print_json, print_note

WIDE = 140

if TYPE_CHECKING:
    from ops.oracle import Scope

group = typer.Typer()


@group.command()
def audit(
    store: Annotated[str, typer.Option(help="store ids, comma between; default all")] = "",
    days: Annotated[str, typer.Option(help="UTC days A..B, both inclusive; default all")] = "",
    http: Annotated[
        int, typer.Option(min=0, help="random windows to ask of the API, 0 for none")
    ] = 1000,
    seed: Annotated[int, typer.Option(help="seed of the random windows")] = 1,
    only: Annotated[str, typer.Option(help="ledger or oracle; default both")] = "",
    against: Annotated[
        str,
        typer.Option(help="oracle (the real receipts) or master (whatever was sent, all families)"),
    ] = "oracle",
    json: JsonOption = False,
) -> None:
    """Prove the conservation ledger; compare every served window with the oracle.

    Exit code 1 when anything differs.\f
    Raises Exit with that code, BadParameter for options that mean nothing.
    """
    from rich.console import Console

    from ops.audit.report import AuditRequest, as_json, run_audit, show
    from tally.config.settings import Settings

    if only not in ("", "ledger", "oracle"):
        raise typer.BadParameter("--only takes ledger or oracle")
    if against not in ("oracle", "master"):
        raise typer.BadParameter("--against takes oracle or master")
    has_ledger, is_compared = only != "oracle", only != "ledger"
    by_master, scope = is_compared and against == "master", _scope(store, days)
    request = AuditRequest(scope, http, seed, has_ledger, is_compared, by_master)
    report = run_audit(Settings.load(), request, print_note)
    if json:
        print_json(as_json(report))
    else:
        # Without a terminal there is no width to fit into, and a truncated number is useless.
        show(report, Console() if sys.stdout.isatty() else Console(width=WIDE))
    raise typer.Exit(0 if report.ok else 1)


def _scope(store: str, days: str) -> "Scope":
    from ops.oracle import Scope

    stores = frozenset(name for name in store.split(",") if name)
    if not days:
        return Scope(stores)
    try:
        first, last = (date.fromisoformat(day) for day in days.split(".."))
    except ValueError as error:
        raise typer.BadParameter(f"--days {days!r}: expected YYYY-MM-DD..YYYY-MM-DD") from error
    return Scope(stores, first, last)
