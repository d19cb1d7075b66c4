"""Lag against retention: told at half of what a record may wait."""

import pytest

from ops.lag import WaitingSeconds
from ops.local.stack.doctor import late_readers
from tally.config.settings import Settings

SETTINGS = Settings(raw_backlog_seconds=7200, canonical_retention_hours=4)


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        (WaitingSeconds(0, 0, 0), []),
        (WaitingSeconds(3600, 7200, 7200), []),
        (
            WaitingSeconds(3601, 0, 0),
            ["normaliser: a record has waited for 1.0 h, at 2.0 h the gateway refuses messages"],
        ),
        (
            WaitingSeconds(0, 7201, 0),
            ["speed: a record has waited for 2.0 h, at 4.0 h Kafka drops what it has not read"],
        ),
        (
            WaitingSeconds(0, 0, 9000),
            ["master: a record has waited for 2.5 h, at 4.0 h Kafka drops what it has not read"],
        ),
    ],
)
def test_reader_is_named_beyond_half_of_what_a_record_may_wait(
    waiting: WaitingSeconds, expected: list[str]
) -> None:
    assert list(late_readers(SETTINGS, waiting)) == expected
