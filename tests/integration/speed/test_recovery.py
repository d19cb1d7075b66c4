"""Replays, restored checkpoints, second queries and zombies: the row that has seen the most events stays, whoever wrote it.

The negative controls give the same histories to sinks that are not registers, and have to go wrong.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from speed_layer.sink.counter import counter_table
from speed_layer.sink.rows import written
from tally.families import SALES
from tests.integration.speed.query import SpeedQuery


def history(query: SpeedQuery, backup: Path | None = None) -> None:
    """Three micro-batches of one window, with cents 100, 20, 3 and a duplicate; a backup of the checkpoint after the first."""
    for number, cents in enumerate((100, 20, 3)):
        query.send(query.sale(number, cents=cents), query.sale(0))
        query.run()
        if number == 0 and backup:
            query.copy_checkpoint(backup)


def test_repeated_micro_batch_writes_identical_rows(query: SpeedQuery) -> None:
    history(query)
    before = query.written_at()

    query.forget_last_commit()
    query.run()

    assert (query.written_at(), query.totals()) == (before, [(3, 123)])


def test_restored_checkpoint_and_a_query_from_the_beginning_end_equal_and_never_lower(query: SpeedQuery, elsewhere: Path) -> None:
    history(query, backup=elsewhere / "backup")
    seen = [query.written_at()]

    query.restore_checkpoint(elsewhere / "backup")
    query.run()
    seen.append(query.written_at())
    query.anew(elsewhere / "second").run()
    seen.append(query.written_at())

    assert seen == [seen[0]] * 3


def test_late_write_of_a_zombie_changes_nothing(query: SpeedQuery) -> None:
    history(query)

    (acks,) = written(query.rows_of_prefix(1), query.settings, SALES).collect()

    assert (tuple(acks), query.totals()) == ((1, 1), [(3, 123)])


def test_negative_control_wall_clock_lets_a_zombie_lower_the_row(query: SpeedQuery) -> None:
    query = query.with_register("wall_clock")
    history(query)

    written(query.rows_of_prefix(1), query.settings, SALES).collect()

    assert query.totals() == [(1, 100)]


@pytest.fixture
def counted(query: SpeedQuery) -> Iterator[SpeedQuery]:
    """The query with the counter sink."""
    yield query.with_register("counter")
    query.session.execute(f"TRUNCATE {counter_table(SALES)}")


def counters(query: SpeedQuery) -> list[tuple[int, int]]:
    """(events, cents) of the store's counter rows."""
    rows = query.session.execute(f"SELECT store_id, events, gross_minor FROM {counter_table(SALES)}")
    return [(row.events, row.gross_minor) for row in rows if row.store_id == query.store]


def test_negative_control_counter_adds_a_repeated_micro_batch_again(counted: SpeedQuery) -> None:
    history(counted)
    counted.forget_last_commit()

    counted.run()

    # Each start of the query is a process that knows nothing of what was added before: 1+2+3 events, and 3 once more.
    assert counters(counted) == [(1 + 2 + 3 + 3, 100 + 120 + 123 + 123)]


def test_negative_control_counter_adds_what_a_second_query_reads_again(counted: SpeedQuery, elsewhere: Path) -> None:
    counted.batches([counted.sale(0)], [counted.sale(1)])
    right = counters(counted)

    counted.anew(elsewhere).run()

    assert (right, counters(counted)) == ([(2, 200)], [(4, 400)])
