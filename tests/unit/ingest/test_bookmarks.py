"""Whether it is right to read on at a committed position, by what Kafka holds now; and what an
offset's metadata says."""

import pytest

from runtime.bookmarks import Bookmark, Log, TopicIds, what_is_lost
from runtime.marks import Mark, mark

LAST = Mark(9, 1_500_000_000_000, "aa")
BOOK = Bookmark("id-1", LAST)
# Position 10: offsets 0 to 9 were read.
WHOLE = Log("id-1", 0, 20, LAST)


def test_same_log_is_read_on() -> None:
    assert what_is_lost(10, BOOK, WHOLE) is None
    assert what_is_lost(10, BOOK, Log("id-1", 9, 10, LAST)) is None


def test_first_start_begins_at_the_first_record_ever_written() -> None:
    assert what_is_lost(0, None, Log("id-1", 0, 20)) is None
    assert "offsets 0 to 4 were deleted before they were read" in str(
        what_is_lost(0, None, Log("id-1", 5, 20))
    )


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (Log("id-2", 0, 20, LAST), "deleted and created anew"),
        (Log("id-1", 11, 20, None), "offsets 10 to 10 were deleted before they were read"),
        (Log("id-1", 0, 9, None), "ends at 9: the log was cut"),
        (
            Log("id-1", 0, 20, Mark(9, 1_500_000_000_000, "bb")),
            "is not the one that was read there",
        ),
        (
            Log("id-1", 0, 20, Mark(9, 1_500_000_000_001, "aa")),
            "is not the one that was read there",
        ),
        (Log("id-1", 10, 20, None), "is not the one that was read there"),
    ],
)
def test_another_log_is_refused(log: Log, told: str) -> None:
    assert told in str(what_is_lost(10, BOOK, log))


def test_topic_made_anew_before_anything_was_read_is_refused_too() -> None:
    assert "deleted and created anew" in str(what_is_lost(0, Bookmark("id-1"), Log("id-2", 0, 20)))
    assert what_is_lost(0, Bookmark("id-1"), Log("id-1", 0, 20)) is None


def test_position_without_a_bookmark_is_judged_by_its_offset_alone() -> None:
    assert what_is_lost(10, None, Log("id-1", 10, 20)) is None
    assert what_is_lost(10, None, Log("id-1", 11, 20)) is not None


def test_bookmark_is_read_back_from_metadata_and_anything_else_is_none() -> None:
    assert Bookmark.read(BOOK.text) == BOOK
    assert [Bookmark.read(text) for text in (None, "", "by hand", "{}", "[1]")] == [None] * 5


def test_topic_ids_are_read_back_and_anything_else_is_none() -> None:
    kept = TopicIds({"posTransactionTopic": "id-1"})
    assert TopicIds.read(kept.text) == kept
    assert [TopicIds.read(text) for text in (None, "", "by hand", "[1]")] == [TopicIds()] * 4


def test_null_value_has_the_mark_of_an_empty_one() -> None:
    assert mark(3, 5, None) == mark(3, 5, b"") != mark(3, 5, b" ")
