"""When the master is current: everything that was committed at an instant has been read."""

from datetime import UTC, datetime

import pytest

from batch_layer.master.positions import Until
from batch_layer.master.watch import Sight

SIGHT = Sight(datetime(2026, 11, 22, tzinfo=UTC), {"sales": {0: 5, 1: 0}, "traffic": {0: 2}})


@pytest.mark.parametrize(
    ("reached", "expected"),
    [
        ({"sales": {0: 5}, "traffic": {0: 2}}, True),
        ({"sales": {0: 9, 1: 3}, "traffic": {0: 2}}, True),
        ({"sales": {0: 4}, "traffic": {0: 2}}, False),
        ({"sales": {0: 5}}, False),
        ({}, False),
    ],
)
def test_sight_is_reached_when_every_end_of_it_is(reached: Until, expected: bool) -> None:
    assert SIGHT.is_reached(reached) is expected
