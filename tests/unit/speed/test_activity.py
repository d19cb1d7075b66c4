"""What a worker notes of the stores and of the values of every axis, and how much that writes."""

import struct
from collections import Counter
from typing import Any

import pytest
from cassandra import cqltypes
from cassandra.query import PreparedStatement

from runtime.cassandra import writes
from runtime.connect import CQL_DATE_ZERO
from runtime.registry.sources import SALES, TRAFFIC
from speed_layer.state import sink
from speed_layer.state.sink import StoreActivity
from tally.algebra.parts import Sum
from tally.families.family import Family
from tests.support.serving.unplugged_session import UnpluggedSession

QUEUES = Family("queues", ("queue", "desk"), (Sum("arrived"),), epoch=1)


class Registers(UnpluggedSession):
    """A session for tables of keys that are texts, with a day and a write timestamp behind them."""

    def prepare(self, text: str) -> PreparedStatement:
        keys = [cqltypes.UTF8Type] * (text.count("?") - 2)
        self._types = (*keys, cqltypes.SimpleDateType, cqltypes.LongType)
        return super().prepare(text)

    @property
    def spans(self) -> list[tuple[Any, ...]]:
        """Column, keys and day since 1970 of each write."""
        return [
            (
                "first" if "first_day" in text else "last",
                *((key or b"").decode() for key in values[:-2]),
                struct.unpack(">I", values[-2] or b"")[0] - CQL_DATE_ZERO,
            )
            for text, values in self.written
        ]


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Registers:
    made = Registers(())
    monkeypatch.setattr(writes, "execute_concurrent", made.execute_concurrent)
    return made


def row(store: str, day: int, *axes: str) -> tuple[Any, ...]:
    """A row as far as it is looked at: store, day, start of the window, axes."""
    return (store, day, day * 86_400_000, *axes, "*", "", 1)


def test_each_axis_of_a_family_is_noted_with_its_days(session: Registers) -> None:
    noted = StoreActivity(QUEUES, session)

    noted.note([row("7", 3, "tills", "a"), row("7", 5, "tills", "b")])
    noted.flush()

    assert session.spans == [
        ("first", "queues", "7", 3),
        ("last", "queues", "7", 5),
        ("first", "queues", "queue", "7", "tills", 3),
        ("last", "queues", "queue", "7", "tills", 5),
        ("first", "queues", "desk", "7", "a", 3),
        ("last", "queues", "desk", "7", "a", 3),
        ("first", "queues", "desk", "7", "b", 5),
        ("last", "queues", "desk", "7", "b", 5),
    ]


@pytest.mark.parametrize(("family", "axes", "count"), [(SALES, ("USD",), 4), (TRAFFIC, (), 2)])
def test_family_writes_two_registers_for_a_store_and_two_for_a_value(
    session: Registers, family: Family, axes: tuple[str, ...], count: int
) -> None:
    noted = StoreActivity(family, session)

    for _ in range(3):
        noted.note([row("7", 3, *axes)] * 5)
        noted.flush()

    assert len(session.spans) == count


def test_only_the_side_of_a_span_that_has_grown_is_written(session: Registers) -> None:
    noted = StoreActivity(QUEUES, session)
    for day in (3, 4, 3):
        noted.note([row("7", day, "tills", "a")])
        noted.flush()

    assert Counter(column for column, *_ in session.spans) == {"first": 3, "last": 6}


def test_worker_that_has_met_very_many_values_forgets_them_and_writes_them_again(
    session: Registers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "MAX_REMEMBERED", 2)
    noted = StoreActivity(QUEUES, session)
    for queue in ("a", "b", "c", "a"):
        noted.note([row("7", 3, queue, "1")])
        noted.flush()

    queues = Counter(keys[3] for _, *keys, _ in session.spans if keys[1] == "queue")
    assert queues == {"a": 4, "b": 2, "c": 2}
