"""A level by DuckDB, which hangs on the instants of its events; and a part that has no query."""

from datetime import timedelta
from pathlib import Path

import pytest

from tally.algebra.level import Level
from tally.algebra.parts import Sum
from tally.errors import TallyError
from tests.unit.audit.test_master import EVERY, MONDAY, MONDAY_MILLIS, brought, valued


def test_a_level_is_the_last_count_by_instant_and_what_moved_since(tmp_path: Path) -> None:
    # In the order of their offsets: a count that came late is still of its own instant.
    told = [
        (30, Level.encode_movement(-4)),
        (20, Level.encode_count(9)),
        (10, Level.encode_count(2)),
        (20, Level.encode_movement(1)),
    ]
    rows = [
        {**one, "happened_at": MONDAY + timedelta(seconds=at)}
        for (at, _), one in zip(told, brought([number for _, number in told])[::2], strict=True)
    ]

    [found] = valued(tmp_path, rows, (Level("pieces"),)).values()

    at = [MONDAY_MILLIS + 1000 * second for second in (20, 20, 30)]
    kept = [Level.encode_count(9), Level.encode_movement(1), Level.encode_movement(-4)]
    assert found == {"pieces": [list(pair) for pair in zip(at, kept, strict=True)]}


def test_a_part_that_no_query_computes_is_named(tmp_path: Path) -> None:
    class Mean(Sum):
        """A part that nobody has."""

    with pytest.raises(TallyError, match=r"audit: queues\.mean: .* Mean"):
        valued(tmp_path, brought((1,)), (*EVERY, Mean("mean")))
