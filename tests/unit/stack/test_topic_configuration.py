"""What the brokers are told about each kind of topic: how long they keep what, by whose clock."""

import pytest

from ops.provision import topic_configuration
from tally.settings import Settings


def test_brokers_delete_nothing_of_a_raw_topic_by_themselves() -> None:
    raw = topic_configuration("raw", Settings())

    assert (raw["retention.ms"], raw["retention.bytes"]) == ("-1", "-1")


@pytest.mark.parametrize(
    ("retention_seconds", "segment_ms"), [(86_400, "3600000"), (600, "600000"), (1, "60000")]
)
def test_raw_messages_leave_the_disk_within_an_hour_of_their_retention(
    retention_seconds: int, segment_ms: str
) -> None:
    raw = topic_configuration("raw", Settings(raw_retention_seconds=retention_seconds))

    assert raw["segment.ms"] == segment_ms


def test_canonical_topic_keeps_its_hours_and_a_durable_one_everything() -> None:
    kept = [
        topic_configuration(kind, Settings())["retention.ms"]
        for kind in ("canonical", "durable", "clock")
    ]

    assert kept == ["604800000", "-1", "3600000"]
