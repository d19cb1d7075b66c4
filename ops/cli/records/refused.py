"""`tally refused`: what does not count, by store, why, and what can be done."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from ops.cli.options import JsonOption
from runtime.process.output import print_json
from tally.config.settings import Settings

_SHOWN_MESSAGE = 120


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("refused")(list_refused)


def list_refused(
    store: Annotated[str, typer.Option(help="only of this store")] = "",
    reason: Annotated[str, typer.Option(help="only for this reason, or `waits`, `unmapped`")] = "",
    since: Annotated[
        str, typer.Option(metavar="INSTANT", help="only from this instant or UTC day on")
    ] = "",
    json: JsonOption = False,
) -> None:
    """What was refused or waits, by store and reason, with the fix.

    What a gateway has answered with 422 is with its sender and not here.
    """
    from ops.audit.refused import list_refused_events
    from ops.cli.records.dead_letters import instant_option
    from ops.dead_letters import DeadLetterFilter
    from runtime.connect import cassandra_session

    settings, wanted = Settings.load(), DeadLetterFilter(reason, "", instant_option(since))
    with cassandra_session(settings) as session:
        found = list_refused_events(settings, session, wanted, store)
    if json:
        print_json({"refused": [group._asdict() for group in found]})
        return
    table = Table(
        Column("store", no_wrap=True),
        Column("reason", no_wrap=True),
        "events",
        "last",
        "message",
        "what to do",
        title=f"{sum(group.events for group in found):,} events do not count",
    )
    for group in found:
        # Text, not markup, and on one line: the message comes from an unknown sender.
        message = Text(group.message[:_SHOWN_MESSAGE].replace("\n", " "))
        names = (Text(group.store or "not known"), group.reason, f"{group.events:,}")
        table.add_row(*names, group.last[:16], message, group.fix)
    Console().print(table)
