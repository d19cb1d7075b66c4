"""`tally backfill`, `tally gaps`, `tally conflicts`: what a person decides about records."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from ops.cli.shared import JsonOption, build_table, print_answer, whole_column
from runtime.process.output import print_json, print_note
from runtime.registry.sources import FAMILIES
from tally.config.settings import Settings
from tally.errors import TallyError
from tally.events.identity import has_restarted_numbers
from tally.time.instants import format_utc

if TYPE_CHECKING:
    from cassandra.cluster import Session

    from ops.conflicts import TillConflicts
    from runtime.records.control_copies import CopiedTable
    from runtime.records.gaps import AcceptedGap

# The streaming queries of the speed layer, which name their checkpoint folders. Their modules would
# bring Spark along.
SPEED_QUERIES = ("views", "receipts")

group = typer.Typer()
GROUPS = {
    "backfill": "Declare past days as sent whole: only then are their empty windows zeros.",
    "gaps": "Records that were gone before they were read: list, accept.",
    "conflicts": "Receipts of a number that was used before: list, accept.",
}
verbs = [typer.Typer(name=name, no_args_is_help=True) for name in GROUPS]
for verb in verbs:
    group.add_typer(verb, help=GROUPS[str(verb.info.name)])
backfill_group, gap_group, conflict_group = verbs


@backfill_group.command()
def declare(
    family: Annotated[str, typer.Argument(help="view family")],
    days: Annotated[str, typer.Option(help="UTC days A..B, both inclusive")],
    source: Annotated[str, typer.Option(help="where the events came from, in your words")],
    json: JsonOption = False,
) -> None:
    """Declare that all events of these days have been sent.

    The next rebuild covers the days, also those without any.\f
    Raises BadParameter for an unknown family, or days that are none.
    """
    from runtime.connect import cassandra_session
    from runtime.records.control_copies import BACKFILLS
    from runtime.records.gaps import declare_backfill
    from tally.time.windows import parse_days

    if family not in FAMILIES:
        raise typer.BadParameter(f"family {family!r}: one of {', '.join(FAMILIES)}")
    try:
        span = parse_days(days)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    # The user is trusted: a past day's missing events look like events that never happened.
    settings = Settings.load()
    with cassandra_session(settings) as session:
        declared = declare_backfill(session, family, span, source)
        _copy(session, settings, BACKFILLS)
    if json:
        print_json(asdict(declared))
        return
    days = f"{declared.first} to {declared.last}"
    print_note(f"{family}: {days} declared; `tally rebuild` covers them")


@backfill_group.command("list")
def list_backfills(json: JsonOption = False) -> None:
    """Every declared backfill."""
    from runtime.connect import cassandra_session
    from runtime.records.gaps import read_backfills

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
    shown = []
    for gap in open_gaps:
        place = {"topic": gap.topic, "partition": gap.partition, "position": gap.position}
        bounds = {"earliest": gap.log.earliest, "end": gap.log.end}
        shown.append({**place, **bounds, "loss": gap.loss})
    answer = {"gaps": [*map(_gap_json, gaps)], "open": shown}
    print_answer(json, answer, _gap_table(gaps))
    for gap in open_gaps if not json else ():
        which = f"{gap.topic} {gap.partition}"
        print(f"open: {which}: {gap.loss}; `tally gaps accept {which}`")


@gap_group.command("accept")
def accept_gap(
    topic: Annotated[str, typer.Argument(help="raw or canonical topic")],
    partition: Annotated[int, typer.Argument(help="its partition", min=0)],
    reason: Annotated[str, typer.Option(help="why they are gone, kept with the gap")] = "",
    json: JsonOption = False,
) -> None:
    """Go on without the records that one partition has lost.

    The windows of that time are never complete again.\f
    Raises BadParameter for a topic or partition without a reader, TallyError when nothing is
    missing.
    """
    from ops.gaps import accept, find_open_gap, readable_topics
    from runtime.connect import cassandra_session
    from runtime.records.control_copies import GAPS

    settings = Settings.load()
    if topic not in readable_topics() or partition >= settings.partitions:
        topics, last = ", ".join(readable_topics()), settings.partitions - 1
        raise typer.BadParameter(
            f"{topic} {partition}: topics are {topics}, partitions 0 to {last}"
        )
    with cassandra_session(settings) as session:
        found = find_open_gap(settings, session, topic, partition)
        if found is None:
            raise TallyError(f"{topic} {partition}: nothing is missing, its reader can go on")
        gap = accept(settings, session, found, reason or found.loss)
        _copy(session, settings, GAPS)
    print_answer(json, _gap_json(gap), _gap_table([gap]))
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

    What a later rebuild finds more has to be accepted again.\f
    Raises TallyError where no conflict is open.
    """
    from ops.conflicts import accept, till_conflicts
    from runtime.connect import cassandra_session
    from runtime.records.control_copies import ACCEPTED_CONFLICTS

    settings = Settings.load()
    with cassandra_session(settings) as session:
        conflicts = [
            conflict
            for conflict in till_conflicts(session)
            if conflict.is_open
            and (conflict.store_id, conflict.day) == (store, str(day.date()))
            and till in ("", conflict.till_id)
        ]
        if not conflicts:
            where = f"store {store}{f', till {till}' if till else ''}, {day.date()}"
            raise TallyError(
                f"{where}: no conflict is open; `tally conflicts list` names those there are"
            )
        accepted = accept(session, conflicts, reason, datetime.now(UTC))
        _copy(session, settings, ACCEPTED_CONFLICTS)
    _print_conflicts(accepted, json)


def _copy(session: "Session", settings: Settings, table: "CopiedTable") -> None:
    from runtime.records.control_copies import copy_table

    copy_table(session, settings.control_copies_path, table)


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
    del fields["from_offset"], fields["until_offset"]
    times = ("first_arrival", "last_arrival", "noted_at")
    return {**fields, **{name: format_utc(fields[name]) for name in times}}


def _gap_table(gaps: "Sequence[AcceptedGap]") -> Table:
    times = ("arrived after", "and before")
    columns = (whole_column("topic"), "partition", "from", "until", *times, "reason")
    rows = []
    for gap in gaps:
        span = map(str, (gap.partition, gap.from_offset, gap.until_offset))
        arrived = map(format_utc, (gap.first_arrival, gap.last_arrival))
        rows.append((gap.topic, *span, *arrived, gap.reason))
    return build_table(columns, rows, title=f"{len(gaps):,} gaps")


def _print_conflicts(conflicts: "Sequence[TillConflicts]", is_json: bool) -> None:
    shown = [{**asdict(conflict), "is_open": conflict.is_open} for conflict in conflicts]
    counts = ("conflicts", "of records", "accepted")
    columns = (whole_column("store"), "till", whole_column("day"), *counts, "what to do")
    rows = []
    for conflict in conflicts:
        numbers = conflict.conflicts, conflict.records, conflict.accepted
        place = conflict.store_id, conflict.till_id, conflict.day
        rows.append((*place, *(f"{count:,}" for count in numbers), _advice(conflict)))
    table = build_table(columns, rows, title=f"{len(conflicts):,} tills and days with conflicts")
    print_answer(is_json, {"conflicts": shown}, table)


def _advice(conflict: "TillConflicts") -> str:
    if not conflict.is_open:
        return conflict.reason
    if has_restarted_numbers(conflict.records, conflict.conflicts):
        return "`numbering: daily` or `yearly` in the stores file, then `tally rebuild`"
    accepting = f"`tally conflicts accept {conflict.store_id} {conflict.day} --reason …`"
    return f"send what is missing under another number, then {accepting}"
