"""`tally gaps`: records that were gone before they were read; list them, accept them."""

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from ops.cli.options import JsonOption
from runtime.process.output import print_json, print_note
from runtime.registry.sources import FAMILIES
from tally.config.settings import Settings
from tally.errors import TallyError

if TYPE_CHECKING:
    from ops.gaps import OpenGap
    from runtime.records.gaps import AcceptedGap


def register(app: typer.Typer) -> None:
    """Add the verb group to the command line."""
    group = typer.Typer(
        help="Records that were gone before they were read: list, accept.", no_args_is_help=True
    )
    group.command("list")(list_gaps)
    group.command("accept")(accept_gap)
    app.add_typer(group, name="gaps")


def list_gaps(
    json: JsonOption = False,
) -> None:
    """Gaps that were accepted, and partitions whose reader cannot go on."""
    from ops.gaps import find_open_gaps
    from runtime.connect import cassandra_session
    from runtime.records.gaps import read_gaps

    settings = Settings.load()
    with cassandra_session(settings) as session:
        gaps, holes = read_gaps(session), find_open_gaps(settings, session)
    if json:
        print_json(
            {
                "gaps": [_as_json(gap) for gap in gaps],
                "open": [_open_gap_as_json(hole) for hole in holes],
            }
        )
        return
    _print_gaps(gaps)
    for hole in holes:
        print(
            f"open: {hole.topic} {hole.partition}: {hole.loss};"
            f" `tally gaps accept {hole.topic} {hole.partition}`"
        )


def accept_gap(
    topic: Annotated[str, typer.Argument(help="raw or canonical topic")],
    partition: Annotated[int, typer.Argument(help="its partition", min=0)],
    reason: Annotated[str, typer.Option(help="why they are gone, kept with the gap")] = "",
    json: JsonOption = False,
) -> None:
    """Go on without the records that one partition has lost.

    The windows of that time are never complete again.
    \f
    Raises BadParameter for a topic or partition without a reader, TallyError when nothing is
    missing.
    """
    from ops.gaps import accept, find_open_gap, readable_topics
    from runtime.connect import cassandra_session

    settings = Settings.load()
    if topic not in readable_topics() or partition >= settings.partitions:
        raise typer.BadParameter(
            f"{topic} {partition}:"
            f" topics are {', '.join(readable_topics())}, partitions 0 to {settings.partitions - 1}"
        )
    with cassandra_session(settings) as session:
        found = find_open_gap(settings, session, topic, partition)
        if found is None:
            raise TallyError(f"{topic} {partition}: nothing is missing, its reader can go on")
        gap = accept(settings, session, found, reason or found.loss)
    if json:
        print_json(_as_json(gap))
    else:
        _print_gaps([gap])
    print_note(_next_step(settings, topic))


def _next_step(settings: Settings, topic: str) -> str:
    if topic not in FAMILIES:
        return "`tally up normaliser` goes on behind the gap."
    # The speed layer has no way past a hole: the batch layer answers for the time before its floor.
    checkpoint = settings.checkpoint(topic)
    return (
        "`tally up master` goes on behind the gap."
        f" For the speed layer move {checkpoint} away: it begins again, with a floor."
    )


def _as_json(gap: "AcceptedGap") -> dict[str, Any]:
    named = {**asdict(gap), "from": gap.from_offset, "until": gap.until_offset}
    renamed = {
        name: value for name, value in named.items() if name not in ("from_offset", "until_offset")
    }
    return {
        name: _text(value) if isinstance(value, datetime) else value
        for name, value in renamed.items()
    }


def _open_gap_as_json(hole: "OpenGap") -> dict[str, Any]:
    place = {"topic": hole.topic, "partition": hole.partition, "position": hole.position}
    return {
        **place,
        "earliest": hole.log.earliest,
        "end": hole.log.end,
        "loss": hole.loss,
    }


def _text(instant: datetime) -> str:
    # The driver returns instants without a zone, and a new gap has one; both are UTC.
    return instant.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def _print_gaps(gaps: "list[AcceptedGap]") -> None:
    table = Table(
        Column("topic", no_wrap=True),
        "partition",
        "from",
        "until",
        "arrived after",
        "and before",
        "reason",
        title=f"{len(gaps):,} gaps",
    )
    for gap in gaps:
        offsets = (str(gap.partition), str(gap.from_offset), str(gap.until_offset))
        table.add_row(
            # Text, not markup: a person has typed the reason.
            gap.topic,
            *offsets,
            _text(gap.first_arrival),
            _text(gap.last_arrival),
            Text(gap.reason),
        )
    Console().print(table)
