"""What the brokers are told about each kind of topic: how long they keep what, by whose clock."""

import pytest

from ops.provision import partition_count, topic_configuration
from tally.config.settings import Settings

KEPT = ("compacted", "chronicle")


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


def test_canonical_topic_keeps_its_hours_and_a_durable_one_400_days() -> None:
    kept = [
        topic_configuration(kind, Settings())["retention.ms"]
        for kind in ("canonical", "durable", "clock")
    ]

    assert kept == ["604800000", "34560000000", "3600000"]


def test_of_a_compacted_topic_the_last_record_of_a_key_stays_and_of_a_chronicle_every_record() -> (
    None
):
    compacted, chronicle = (topic_configuration(kind, Settings()) for kind in KEPT)

    assert (compacted["cleanup.policy"], compacted["segment.ms"]) == ("compact", "3600000")
    assert "cleanup.policy" not in chronicle
    assert {one["retention.ms"] for one in (compacted, chronicle)} == {"-1"}
    assert {one["message.timestamp.type"] for one in (compacted, chronicle)} == {"LogAppendTime"}


def test_a_chronicle_has_one_order_and_every_other_topic_the_settings_partitions() -> None:
    counts = [partition_count(kind, Settings(partitions=7)) for kind in (*KEPT, "raw", "durable")]

    assert counts == [7, 1, 7, 7]


def test_alerts_are_kept_thirty_days_by_the_brokers_clock() -> None:
    alerts = topic_configuration("alerts", Settings())

    assert alerts["retention.ms"] == str(30 * 24 * 3_600_000)
    assert alerts["message.timestamp.type"] == "LogAppendTime"


@pytest.mark.parametrize("partitions", [1, 4, 12, 42])
def test_dead_letters_are_kept_ninety_days_and_take_a_gibibyte_at_most(partitions: int) -> None:
    letters = topic_configuration("letters", Settings(partitions=partitions))
    kept, segment = int(letters["retention.bytes"]), int(letters["segment.bytes"])

    assert letters["retention.ms"] == str(90 * 24 * 3_600_000)
    # A file goes once what is left without it is still as much; and one is always written to.
    assert 2**30 * 2 // 3 <= partitions * (kept + 2 * segment) <= 2**30
    assert segment > int(letters["max.message.bytes"])


def test_dead_letters_keep_the_time_at_which_they_were_written() -> None:
    assert "message.timestamp.type" not in topic_configuration("letters", Settings())
