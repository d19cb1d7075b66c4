"""A receipt sent over and over: neither exact copies that the normaliser has marked nor others
leave a trace in the state."""

import json
from pathlib import Path

import msgspec

from speed_layer.state.records import parse_reports
from tally.events.identity import partition_number
from tests.integration.speed.query import SpeedQuery
from tests.support.clients.producers import connected_producer

COPIES, CONTROL_RECEIPTS, BOUND_BYTES = 200_000, 20_000, 50_000


def storm(query: SpeedQuery, copies: int, marked: bool) -> None:
    """One receipt, and its copies right behind it."""
    first = msgspec.json.encode(query.sale(1))
    copy = json.dumps(json.loads(first) | {"repeat": True}).encode() if marked else first
    producer = connected_producer(query.settings, {"queue.buffering.max.messages": 1_000_000})
    for number in range(copies + 1):
        producer.produce(
            query.topic,
            copy if number else first,
            query.store,
            partition_number(query.store, query.settings.partitions),
        )
    assert producer.flush(120) == 0


def state_bytes(checkpoint: Path) -> int:
    """Everything that the state store has written."""
    return sum(file.stat().st_size for file in (checkpoint / "state").rglob("*") if file.is_file())


def test_storm_of_marked_copies_leaves_the_state_as_it_was(query: SpeedQuery) -> None:
    storm(query, COPIES, marked=True)

    batch_report = query.of_at_most(2 * COPIES).run()

    assert (query.totals(), sum(report.repeats for report in parse_reports(batch_report))) == (
        [(1, 100)],
        COPIES,
    )
    assert state_bytes(query.checkpoint) < BOUND_BYTES


def test_copies_without_marks_do_so_too(query: SpeedQuery) -> None:
    storm(query, COPIES, marked=False)

    batch_report = query.of_at_most(2 * COPIES).run()

    assert (query.totals(), sum(report.repeats for report in parse_reports(batch_report))) == (
        [(1, 100)],
        0,
    )
    assert state_bytes(query.checkpoint) < BOUND_BYTES


def test_negative_control_as_many_receipts_grow_the_state(query: SpeedQuery) -> None:
    query.send(*(query.sale(number) for number in range(CONTROL_RECEIPTS)))

    query.run()

    assert state_bytes(query.checkpoint) > BOUND_BYTES
