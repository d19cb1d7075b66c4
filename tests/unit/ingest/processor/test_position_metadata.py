"""Whether it is right to read on at a committed position, by what Kafka holds now; and what an
offset's metadata says."""

import pytest

from runtime.kafka.log_identity import (
    LogState,
    PositionMetadata,
    RecordFingerprint,
    TopicIds,
    fingerprint_record,
    loss_reason,
)

LAST = RecordFingerprint(9, 1_500_000_000_000, "aa")
METADATA = PositionMetadata("id-1", LAST)
# Position 10: offsets 0 to 9 were read.
WHOLE = LogState("id-1", 0, 20, LAST)


def test_same_log_is_read_on() -> None:
    assert loss_reason(10, METADATA, WHOLE) is None
    assert loss_reason(10, METADATA, LogState("id-1", 9, 10, LAST)) is None


def test_first_start_begins_at_the_first_record_ever_written() -> None:
    assert loss_reason(0, None, LogState("id-1", 0, 20)) is None
    assert "offsets 0 to 4 were deleted before they were read" in str(
        loss_reason(0, None, LogState("id-1", 5, 20))
    )


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (LogState("id-2", 0, 20, LAST), "deleted and created again"),
        (LogState("id-1", 11, 20, None), "offsets 10 to 10 were deleted before they were read"),
        (LogState("id-1", 0, 9, None), "ends at 9: the log was cut"),
        (
            LogState("id-1", 0, 20, RecordFingerprint(9, 1_500_000_000_000, "bb")),
            "is not the one that was read there",
        ),
        (
            LogState("id-1", 0, 20, RecordFingerprint(9, 1_500_000_000_001, "aa")),
            "is not the one that was read there",
        ),
        (LogState("id-1", 10, 20, None), "is not the one that was read there"),
    ],
)
def test_another_log_is_refused(log: LogState, told: str) -> None:
    assert told in str(loss_reason(10, METADATA, log))


def test_topic_made_anew_before_anything_was_read_is_refused_too() -> None:
    assert "deleted and created again" in str(
        loss_reason(0, PositionMetadata("id-1"), LogState("id-2", 0, 20))
    )
    assert loss_reason(0, PositionMetadata("id-1"), LogState("id-1", 0, 20)) is None


def test_position_without_metadata_is_judged_by_its_offset_alone() -> None:
    assert loss_reason(10, None, LogState("id-1", 10, 20)) is None
    assert loss_reason(10, None, LogState("id-1", 11, 20)) is not None


def test_metadata_is_read_back_from_its_text_and_anything_else_is_none() -> None:
    assert PositionMetadata.read(METADATA.text) == METADATA
    assert [PositionMetadata.read(text) for text in (None, "", "by hand", "{}", "[1]")] == [
        None
    ] * 5


def test_topic_ids_are_read_back_and_anything_else_is_none() -> None:
    kept = TopicIds({"posTransactionTopic": "id-1"})
    assert TopicIds.read(kept.text) == kept
    assert [TopicIds.read(text) for text in (None, "", "by hand", "[1]")] == [TopicIds()] * 4


def test_null_value_has_the_mark_of_an_empty_one() -> None:
    assert (
        fingerprint_record(3, 5, None)
        == fingerprint_record(3, 5, b"")
        != fingerprint_record(3, 5, b" ")
    )
