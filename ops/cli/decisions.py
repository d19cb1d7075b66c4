"""`tally backfill`, `tally gaps`, `tally conflicts`: what a person decides about records.

Which past days were sent completely, so that their empty windows are true zeros; which records are
gone for good; and which receipts may stand although their number was used before.
"""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ops.cli.shared import JsonOption, print_answer, print_table, whole_column
from runtime.process.output import print_json, print_note
from runtime.registry.sources import FAMILIES
from tally.config.settings import Settings
from tally.errors import TallyError
from tally.events.tills import has_restarted_numbers

if TYPE_CHECKING:
    from ops.conflicts import TillConflicts
    from ops.gaps import OpenGap
    from runtime.records.gaps import AcceptedGap

# The streaming queries of the speed layer, which name their checkpoint folders. Their modules would
# bring Spark along.
SPEED_QUERIES = ("views", "receipts")

backfill_group = typer.Typer(
    name="backfill",
    help="Declare past days as sent whole: only then are their empty windows zeros.",
    no_args_is_help=True,
)
gap_group = typer.Typer(
    name="gaps",
    help="Records that were gone before they were read: list, accept.",
    no_args_is_help=True,
)
conflict_group = typer.Typer(
    name="conflicts",
    help="Receipts of a number that was used before: list, accept.",
    no_args_is_help=True,
)
group = typer.Typer()
for verb in (backfill_group, gap_group, conflict_group):
    group.add_typer(verb)


@backfill_group.command()
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
    from runtime.connect import cassandra_session
    from runtime.records.backfill import declare_backfill
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


@backfill_group.command("list")
def list_backfills(json: JsonOption = False) -> None:
    """Every declared backfill."""
    from runtime.connect import cassandra_session
    from runtime.records.backfill import read_backfills

    with cassandra_session(Settings.load()) as session:
        backfills = [
            declared for family in FAMILIES for declared in read_backfills(session, family)
        ]
    lines = (
        f"{declared.family}  {declared.first}..{declared.last}  {declared.source}"
        for declared in backfills
    )
    print_answer(json, {"backfills": [asdict(declared) for declared in backfills]}, lines)


@gap_group.command("list")
def list_gaps(json: JsonOption = False) -> None:
    """Gaps that were accepted, and partitions whose reader cannot go on."""
    from ops.gaps import find_open_gaps
    from runtime.connect import cassandra_session
    from runtime.records.gaps import read_gaps

    settings = Settings.load()
    with cassandra_session(settings) as session:
        gaps, open_gaps = read_gaps(session), find_open_gaps(settings, session)
    if json:
        print_json(
            {
                "gaps": [_gap_json(gap) for gap in gaps],
                "open": [_open_gap_json(gap) for gap in open_gaps],
            }
        )
        return
    _print_gaps(gaps)
    for open_gap in open_gaps:
        print(
            f"open: {open_gap.topic} {open_gap.partition}: {open_gap.loss};"
            f" `tally gaps accept {open_gap.topic} {open_gap.partition}`"
        )


@gap_group.command("accept")
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
        print_json(_gap_json(gap))
    else:
        _print_gaps([gap])
    print_note(_after_gap(settings, topic))


@conflict_group.command("list")
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
    _print_conflicts(found, json)
    if found and not json:
        print_note("`tally dead-letters list --reason conflict` has the receipts")


@conflict_group.command("accept")
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
        conflicts = [
            conflict
            for conflict in till_conflicts(session)
            if conflict.is_open
            and (conflict.store_id, conflict.day) == (store, str(day.date()))
            and till in ("", conflict.till_id)
        ]
        if not conflicts:
            raise TallyError(_none_open(store, day.date(), till))
        accepted = accept(session, conflicts, reason, datetime.now(UTC))
    _print_conflicts(accepted, json)


def _after_gap(settings: Settings, topic: str) -> str:
    if topic not in FAMILIES:
        return "`tally up normaliser` goes on behind the gap."
    # The speed layer has no way past a gap: the batch layer answers for the time before its floor.
    views, receipts = (settings.checkpoint(query) for query in SPEED_QUERIES)
    return (
        "`tally up master` goes on behind the gap. A query of the speed layer that stops at it"
        f" begins again, with a floor, once its checkpoint is moved away: {views} of `tally up"
        f" speed`, {receipts} of `tally up receipts`."
    )


def _gap_json(gap: "AcceptedGap") -> dict[str, Any]:
    fields = {**asdict(gap), "from": gap.from_offset, "until": gap.until_offset}
    return {
        name: _text(value) if isinstance(value, datetime) else value
        for name, value in fields.items()
        if name not in ("from_offset", "until_offset")
    }


def _open_gap_json(gap: "OpenGap") -> dict[str, Any]:
    place = {"topic": gap.topic, "partition": gap.partition, "position": gap.position}
    bounds = {"earliest": gap.log.earliest, "end": gap.log.end}
    return {**place, **bounds, "loss": gap.loss}


def _text(instant: datetime) -> str:
    # The driver returns instants without a zone, and a new gap has one; both are UTC.
    return instant.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def _print_gaps(gaps: "Sequence[AcceptedGap]") -> None:
    times = ("arrived after", "and before")
    columns = (whole_column("topic"), "partition", "from", "until", *times, "reason")
    rows = (
        (
            gap.topic,
            *map(str, (gap.partition, gap.from_offset, gap.until_offset)),
            *map(_text, (gap.first_arrival, gap.last_arrival)),
            gap.reason,
        )
        for gap in gaps
    )
    print_table(columns, rows, title=f"{len(gaps):,} gaps")


def _none_open(store: str, day: date, till: str) -> str:
    where = f"store {store}{f', till {till}' if till else ''}, {day}"
    return f"{where}: no conflict is open; `tally conflicts list` names those there are"


def _print_conflicts(conflicts: "Sequence[TillConflicts]", is_json: bool) -> None:
    if is_json:
        shown = [{**asdict(conflict), "is_open": conflict.is_open} for conflict in conflicts]
        print_json({"conflicts": shown})
        return
    counts = ("conflicts", "of records", "accepted")
    columns = (whole_column("store"), "till", whole_column("day"), *counts, "what to do")
    rows = (
        (
            *(conflict.store_id, conflict.till_id, conflict.day),
            *(f"{count:,}" for count in (conflict.conflicts, conflict.records, conflict.accepted)),
            _advice(conflict),
        )
        for conflict in conflicts
    )
    print_table(columns, rows, title=f"{len(conflicts):,} tills and days with conflicts")


def _advice(conflict: "TillConflicts") -> str:
    if not conflict.is_open:
        return conflict.reason
    if has_restarted_numbers(conflict.records, conflict.conflicts):
        return "`numbering: daily` or `yearly` in the stores file, then `tally rebuild`"
    accepting = f"`tally conflicts accept {conflict.store_id} {conflict.day} --reason …`"
    return f"send what is missing under another number, then {accepting}"
