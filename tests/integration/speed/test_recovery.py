"""Replays, restored checkpoints, second queries and zombies: the row that has seen the most events
stays, whoever wrote it.

The negative controls give the same histories to sinks that are not registers, and have to go wrong.
"""

from dataclasses import replace
from pathlib import Path

from tests.controls.layers.adding import Adding
from tests.controls.layers.wall_clock import WallClockSink
from tests.integration.speed.query import SpeedQuery


def history(query: SpeedQuery, backup: Path | None = None) -> None:
    """Three micro-batches of one window, with cents 100, 20, 3 and a duplicate; a backup of the
    checkpoint after the first."""
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


def test_restored_checkpoint_and_a_query_from_the_beginning_end_equal_and_never_lower(
    query: SpeedQuery, elsewhere: Path
) -> None:
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

    query.write_prefix(1)

    assert query.totals() == [(3, 123)]


def test_negative_control_wall_clock_lets_a_zombie_lower_the_row(query: SpeedQuery) -> None:
    query = replace(query, sink=lambda: WallClockSink)
    history(query)

    query.write_prefix(1)

    assert query.totals() == [(1, 100)]


def test_negative_control_increments_add_a_repeated_micro_batch_again(query: SpeedQuery) -> None:
    query = replace(query, sink=Adding)
    history(query)
    query.forget_last_commit()

    query.run()

    # Each start of the query knows nothing of what was added before: 1+2+3 events, and 3 once more.
    assert query.totals() == [(1 + 2 + 3 + 3, 100 + 120 + 123 + 123)]


def test_negative_control_increments_add_what_a_second_query_reads_again(
    query: SpeedQuery, elsewhere: Path
) -> None:
    query = replace(query, sink=Adding)
    query.batches([query.sale(0), query.sale(1)])
    right = query.totals()

    query.anew(elsewhere).run()

    assert (right, query.totals()) == ([(2, 200)], [(4, 400)])
