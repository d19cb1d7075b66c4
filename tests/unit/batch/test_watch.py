"""When the master is current: everything that was committed at an instant has been read."""

from datetime import UTC, datetime

import pytest
from cassandra import OperationTimedOut, cqltypes

from batch_layer.master import progress
from batch_layer.master.progress import IngestWatch
from runtime.cassandra import writes
from runtime.kafka.offsets import OffsetBarrier, TopicOffsets, flatten_offsets
from tally.config.settings import Settings
from tests.support.serving.unplugged_session import UnpluggedSession

SIGHT = OffsetBarrier(
    datetime(2026, 11, 22, tzinfo=UTC),
    flatten_offsets({"sales": {0: 5, 1: 0}, "traffic": {0: 2}}),
)


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
def test_sight_is_reached_when_every_end_of_it_is(reached: TopicOffsets, expected: bool) -> None:
    assert SIGHT.is_passed(flatten_offsets(reached)) is expected


def test_watch_goes_on_when_cassandra_does_not_take_how_current_the_master_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One try: the sign of life that follows must not wait for Cassandra."""
    types = (cqltypes.UTF8Type, cqltypes.DateType, cqltypes.LongType)
    session = UnpluggedSession(types, 1, OperationTimedOut())
    monkeypatch.setattr(writes, "execute_concurrent", session.execute_concurrent)
    monkeypatch.setattr(progress, "stable_ends", lambda _settings, _topics: {"sales": {0: 5}})

    IngestWatch(Settings(), session).check({"sales": {0: 5}})

    assert session.written == []
