"""Registers that a rebuild writes beside the rows; every run may write them again.

They hold the days of stores, the values of axes, the ledger and the answered spans.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date

from cassandra.cluster import Session
from cassandra.query import BoundStatement

from batch_layer.views.compute.classification import WAITING
from batch_layer.views.publish.check import GenerationCheck
from runtime.cassandra.day_spans import activity_table, axis_table
from runtime.cassandra.writes import write_groups, write_rows
from tally.families.family import Family
from tally.families.generation import AnsweredSpan
from tally.time.windows import day_end, day_start

_INSERT_ANSWERED_SPAN = (
    "INSERT INTO answered_span (store_id, family, day, generation, since, until)"
    " VALUES (?, ?, ?, ?, ?, ?)"
)


def write_day_spans(session: Session, family: Family, checked: GenerationCheck) -> None:
    """Write the first and last day of each store, and of each value that an axis has in it.

    Both are registers by day number (the earlier first day and the later last day win).
    """
    # The speed layer writes the same registers: the day numbers decide, not the last writer.
    write_groups(session, ([write] for write in _span_writes(session, family, checked)))


def _span_writes(
    session: Session, family: Family, checked: GenerationCheck
) -> Iterator[BoundStatement]:
    stores = activity_table(session, family.name)
    for store, span in checked.stores.items():
        yield from stores.build_writes((store,), span)
    for axis, of_stores in checked.axes.items():
        values = axis_table(session, family.name, axis)
        for store, spans in of_stores.items():
            for value, span in spans.items():
                yield from values.build_writes((store, value), span)


def write_ledger(
    session: Session, family: Family, generation: int, lines: Iterable[Mapping[str, int]]
) -> None:
    """Write the ledger of one generation, a row for each partition.

    Nothing is erased yet: erased is 0.
    """
    columns = ("partition", "committed", "counted", "duplicate", "conflict", "unreadable", WAITING)
    text = (
        f"INSERT INTO batch_ledger (family, generation, {', '.join(columns)}, erased)"
        f" VALUES (?, ?, {', '.join('?' * len(columns))}, 0)"
    )
    rows = (
        (
            family.name,
            generation,
            *(line[name] for name in columns),
        )
        for line in lines
    )
    write_rows(session, text, rows)


def write_answered_spans(
    session: Session,
    family: Family,
    generation: int,
    days: Sequence[date],
    answered: Mapping[str, Sequence[AnsweredSpan]],
) -> None:
    """Write the span of windows of each store and day for which the generation answers.

    `answered`: the spans of each store, ascending.
    """
    rows = (
        (store_id, family.name, day, generation, *span)
        for store_id, spans in answered.items()
        for day in days
        if (span := longest_span(day, spans)) is not None
    )
    write_rows(session, _INSERT_ANSWERED_SPAN, rows)


def longest_span(day: date, spans: Sequence[AnsweredSpan]) -> AnsweredSpan | None:
    """The longest span cut to the UTC day; a day with two spans is rare."""
    # A generation answers only for the windows of its own day.
    begins, ends = day_start(day), day_end(day)
    cut = [(max(since, begins), min(until, ends)) for since, until in spans]
    found = [span for span in cut if span[0] < span[1]]
    return max(found, key=lambda span: span[1] - span[0], default=None)
