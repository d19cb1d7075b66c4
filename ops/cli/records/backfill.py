"""`tally backfill`: the past days that were sent completely.

Their empty windows are true zeros.
"""

from typing import Annotated

import typer

from ops.cli.options import JsonOption
from runtime.process.output import print_json, print_note


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    verbs = typer.Typer(
        help="Declare past days as sent whole: only then are their empty windows zeros.",
        no_args_is_help=True,
    )
    verbs.command("declare")(declare)
    verbs.command("list")(list_backfills)
    app.add_typer(verbs, name="backfill")


def declare(
    family: Annotated[str, typer.Argument(help="view family")],
    days: Annotated[str, typer.Option(help="UTC days A..B, both inclusive")],
    source: Annotated[str, typer.Option(help="where the events came from, in your words")],
    json: JsonOption = False,
) -> None:
    """Declare that all events of these days have been sent.

    The next rebuild covers the days, also those without any.
    \f
    Raises BadParameter for an unknown family, or days that are none.
    """
    from dataclasses import asdict

    from runtime.connect import cassandra_session
    from runtime.records.backfill import declare_backfill
    from runtime.registry.sources import FAMILIES
    from tally.config.settings import Settings
    from tally.time.windows import parse_days

    if family not in FAMILIES:
        raise typer.BadParameter(f"family {family!r}: one of {', '.join(FAMILIES)}")
    try:
        span = parse_days(days)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    # The user is trusted: a past day's missing events look like events that never happened.
    with cassandra_session(Settings.load()) as session:
        declared = declare_backfill(session, family, span, source)
    if json:
        print_json(asdict(declared))
    else:
        print_note(
            f"{family}: {declared.first} to {declared.last} declared; `tally rebuild` covers them"
        )


def list_backfills(
    json: JsonOption = False,
) -> None:
    """Every declared backfill."""
    from dataclasses import asdict

    from runtime.connect import cassandra_session
    from runtime.records.backfill import read_backfills
    from runtime.registry.sources import FAMILIES
    from tally.config.settings import Settings

    with cassandra_session(Settings.load()) as session:
        backfills = [
            declared for family in FAMILIES for declared in read_backfills(session, family)
        ]
    if json:
        print_json({"backfills": [asdict(declared) for declared in backfills]})
        return
    for declared in backfills:
        print(f"{declared.family}  {declared.first}..{declared.last}  {declared.source}")
