"""Rows of one statement are written together and again until each is acknowledged; a key's first
and last day are two registers."""

import struct
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest
from cassandra import OperationTimedOut, cqltypes

from batch_layer.views.publish.check import GenerationCheck
from batch_layer.views.publish.registers import write_day_spans
from runtime import connect
from runtime.cassandra import writes
from runtime.cassandra.day_spans import DaySpan, activity_table
from runtime.cassandra.writes import BATCH_STATEMENTS, chunks, write_rows
from runtime.connect import CQL_DATE_ZERO, worker_session
from runtime.records.gaps import AcceptedGap, declare_backfill, store_gap
from runtime.registry.sources import SALES
from tally.config.settings import Settings
from tally.errors import CassandraWriteTimeout
from tests.support.serving.unplugged_session import UnpluggedSession

TEXT = "INSERT INTO rows (store_id, events) VALUES (?, ?)"
TYPES = (cqltypes.UTF8Type, cqltypes.LongType)
Make = Callable[..., UnpluggedSession]


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes the session whose outcomes the writer is given."""

    def make(*arguments: Any) -> UnpluggedSession:
        made = UnpluggedSession(*arguments)
        monkeypatch.setattr(writes, "execute_concurrent", made.execute_concurrent)
        return made

    return make


def rows(count: int) -> list[tuple[str, int]]:
    return [(str(number), number) for number in range(count)]


def test_rows_travel_in_few_batches_and_each_once(session: Make) -> None:
    made = session(TYPES)

    write_rows(made, TEXT, rows(BATCH_STATEMENTS + 5))

    assert [len(batch) for batch in made.batches] == [BATCH_STATEMENTS, 5]
    assert made.written == [
        (TEXT, (store.encode(), struct.pack(">q", events)))
        for store, events in rows(BATCH_STATEMENTS + 5)
    ]


def test_rows_that_were_not_acknowledged_are_written_again(session: Make) -> None:
    made = session(TYPES, 2, OperationTimedOut())

    write_rows(made, TEXT, rows(1))

    assert len(made.written) == 1


def test_without_patience_rows_are_tried_once(session: Make) -> None:
    made = session(TYPES, 1, OperationTimedOut())

    with pytest.raises(CassandraWriteTimeout):
        write_rows(made, TEXT, rows(1), seconds=0)

    assert made.written == []


DAYS = (cqltypes.UTF8Type, cqltypes.UTF8Type, cqltypes.SimpleDateType, cqltypes.LongType)


def registers(made: UnpluggedSession) -> list[tuple[str, str, int, int]]:
    """Column, key, day since 1970 and write timestamp of each write."""
    return [
        (
            "first" if "first_day" in text else "last",
            (values[1] or b"").decode(),
            struct.unpack(">I", values[2] or b"")[0] - CQL_DATE_ZERO,
            struct.unpack(">q", values[3] or b"")[0],
        )
        for text, values in made.written
    ]


def write_span(made: UnpluggedSession, *spans: DaySpan) -> None:
    table = activity_table(made, "sales")
    writes.write_groups(made, ([write] for write in table.build_writes(("7",), *spans)))


def test_earlier_first_day_and_later_last_day_have_the_higher_timestamp(session: Make) -> None:
    made = session(DAYS)

    write_span(made, DaySpan(-3, 5))

    assert registers(made) == [("first", "7", -3, 3), ("last", "7", 5, 5)]


@pytest.mark.parametrize(
    ("known", "columns"),
    [
        (DaySpan(1, 5), []),
        (DaySpan(2, 5), ["first"]),
        (DaySpan(1, 4), ["last"]),
        (DaySpan(2, 4), ["first", "last"]),
    ],
)
def test_day_that_is_there_already_is_not_written_again(
    session: Make, known: DaySpan, columns: list[str]
) -> None:
    made = session(DAYS)

    write_span(made, DaySpan(1, 5), known)

    assert [column for column, *_ in registers(made)] == columns


def test_rebuild_notes_the_days_of_its_stores_in_the_same_registers(session: Make) -> None:
    made = session(DAYS)

    write_day_spans(made, SALES, GenerationCheck(stores={"7": DaySpan(1, 5), "8": DaySpan(2, 2)}))

    assert registers(made) == [
        ("first", "7", 1, -1),
        ("last", "7", 5, 5),
        ("first", "8", 2, -2),
        ("last", "8", 2, 2),
    ]


def test_rebuild_notes_the_values_of_each_axis_in_registers_of_their_own(session: Make) -> None:
    text, day = cqltypes.UTF8Type, cqltypes.SimpleDateType
    made = session((text, text, text, text, day, cqltypes.LongType))
    spans = {"queue": {"7": {"tills": DaySpan(1, 5)}}, "desk": {"7": {"a": DaySpan(2, 2)}}}

    write_day_spans(made, replace(SALES, name="queues"), GenerationCheck(axes=spans))

    assert {"store_axis" in statement for statement, _ in made.written} == {True}
    assert [
        tuple((value or b"").decode() for value in values[:4]) for _, values in made.written
    ] == [
        ("queues", "queue", "7", "tills"),
        ("queues", "queue", "7", "tills"),
        ("queues", "desk", "7", "a"),
        ("queues", "desk", "7", "a"),
    ]


def test_worker_that_outlives_a_job_serves_the_next_with_one_session(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    class Cluster:
        def connect(self, keyspace: str) -> object:
            return object()

    monkeypatch.setattr(connect, "cassandra_cluster", lambda _settings: Cluster())
    connect._worker_session.cache_clear()
    sessions = [worker_session(Settings(home=tmp_path / name)) for name in ("a", "b")]
    other = worker_session(Settings(home=tmp_path, keyspace="other"))
    connect._worker_session.cache_clear()

    assert sessions[0] is sessions[1] is not other


@pytest.mark.parametrize(
    ("items", "pieces"), [("", []), ("ab", ["ab"]), ("abcde", ["ab", "cd", "e"])]
)
def test_sequence_is_cut_in_its_order_and_no_piece_is_empty(items: str, pieces: list[str]) -> None:
    assert ["".join(piece) for piece in chunks(items, 2)] == pieces


GAP = (
    cqltypes.UTF8Type,
    cqltypes.Int32Type,
    *(cqltypes.LongType,) * 2,
    *(cqltypes.DateType,) * 3,
    cqltypes.UTF8Type,
)
BACKFILL = (cqltypes.UTF8Type, *(cqltypes.SimpleDateType,) * 2, cqltypes.DateType, GAP[0])


def test_what_somebody_has_accepted_or_declared_is_written_until_it_is_acknowledged(
    session: Make,
) -> None:
    at = datetime(2026, 3, 2, tzinfo=UTC)
    made = session(GAP, 2, OperationTimedOut())

    store_gap(made, AcceptedGap("sales", 3, 5, 9, at, at, at, "the disk"))

    [(text, values)] = made.written
    assert "INSERT INTO gap" in text and values[0] == b"sales" and values[-1] == b"the disk"

    made = session(BACKFILL, 2, OperationTimedOut())
    declared = declare_backfill(made, "sales", (date(1, 1, 1), date(2017, 1, 2)), "the archive")

    [(text, values)] = made.written
    assert "INSERT INTO backfill" in text and values[-1] == b"the archive"
    assert declared.last == date(2017, 1, 2)
