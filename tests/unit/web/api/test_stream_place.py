"""Ids of the stream: every place is one text, every other text is refused, and what is gone is
passed by the shortest way."""

import base64
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerting.stream.feed import RecentRecords
from alerting.stream.place import (
    StreamPosition,
    alert_block,
    clamp_position,
    encode_position,
    gap_block,
    parse_position,
    position_at,
    position_block,
    snapshot_block,
)
from runtime.kafka.tail import TopicRecord
from runtime.kafka.topics import Bounds
from tally.errors import BadQuery

TOPIC = "5L6g3nShT-eMCtK--X86sw"
offsets = st.lists(st.integers(0, 10**17), min_size=1, max_size=12)


def coded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


# A broker's own are 22 signs of base64, of which two are `/` and `+` (seen).
TOPIC_IDS = st.text(string.ascii_letters + string.digits + "+/-_", min_size=22, max_size=22)


@given(TOPIC_IDS, offsets)
def test_an_id_is_read_as_the_place_that_it_was(topic_id: str, at: list[int]) -> None:
    place = position_at(topic_id, at)

    assert parse_position(encode_position(place)) == place
    assert "=" not in encode_position(place) and "\n" not in encode_position(place)


@given(offsets, offsets)
def test_two_places_have_two_ids(at: list[int], other: list[int]) -> None:
    assert (
        encode_position(position_at(TOPIC, at)) == encode_position(position_at(TOPIC, other))
    ) == (at == other)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "x" * 5_000,
        "not base64!",
        "\u0661",
        coded("5L6g3nSh"),
        coded("5L6g3nSh.-1"),
        coded("5L6g3nSh.1.x"),
        coded("5L6g3nSh.1\n"),
        coded("5L6g3nSh." + "9" * 19),
        coded("5L6g3nSh.\u0661"),
        coded(".1.2"),
        coded("toolongaprefix.1"),
    ],
)
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(BadQuery, match=r"Last-Event-ID: .* is no id of this stream"):
        parse_position(text)


@pytest.mark.parametrize(
    ("kept", "now", "going_on"),
    [
        # Nothing is gone: also at both ends.
        ((3, 9), [(3, 8), (0, 9)], (3, 9)),
        # Records of one partition have left.
        ((2, 9), [(5, 8), (0, 9)], (5, 9)),
        # The log of one was cut.
        ((3, 12), [(0, 8), (0, 9)], (3, 9)),
        # Another number of partitions is another topic, though its id began alike.
        ((3,), [(1, 8), (2, 9)], (1, 2)),
    ],
)
def test_what_is_gone_is_passed(
    kept: tuple[int, ...], now: list[tuple[int, int]], going_on: tuple[int, ...]
) -> None:
    bounds = [Bounds(*one) for one in now]

    assert clamp_position(position_at(TOPIC, kept), TOPIC, bounds) == position_at(TOPIC, going_on)


def test_of_a_topic_that_was_made_anew_all_is_read() -> None:
    kept = position_at("another-topic-of-the-name", [3, 9])

    assert clamp_position(kept, TOPIC, [Bounds(0, 8), Bounds(2, 2)]) == position_at(TOPIC, [0, 2])


def test_a_place_never_falls() -> None:
    place = position_at(TOPIC, [3, 9])

    assert place.after(0, 7) == position_at(TOPIC, [8, 9])
    assert place.after(1, 4) == place
    assert place.advance_to({0: 1, 1: 20}) == position_at(TOPIC, [3, 20])


def record(partition: int, offset: int) -> TopicRecord:
    return TopicRecord(partition, offset, b"{}")


def test_what_is_no_longer_held_is_said() -> None:
    start = position_at(TOPIC, [0, 0])
    recent = RecentRecords(start, most=2)
    recent.add([record(0, 0), record(1, 0), record(0, 1)], {0: 4, 1: 1})

    assert (recent.position, recent.covers(start)) == (position_at(TOPIC, [4, 1]), False)
    assert recent.covers(position_at(TOPIC, [1, 0]))
    # A reader of another process may be ahead.
    assert not recent.covers(position_at(TOPIC, [5, 1]))
    assert not recent.covers(position_at("another!", [1, 0]))
    assert recent.records_after(position_at(TOPIC, [1, 1])) == [record(0, 1)]


def test_blocks_are_as_the_standard_has_them() -> None:
    place = StreamPosition("5L6g3nSh", (3, 9))
    named = encode_position(place).encode()

    assert position_block(place) == b"id: %b\n\n" % named
    assert alert_block(place, b'{"a":1}') == b'id: %b\nevent: alert\ndata: {"a":1}\n\n' % named
    # On whatever lines it was written, and with an end of line of any kind.
    assert alert_block(place, b'{\r\n"a":\r1}\n').endswith(
        b'event: alert\ndata: {\ndata: "a":\ndata: 1}\n\n'
    )
    gap = gap_block(StreamPosition("5L6g3nSh", (1, 9)), place)
    # Without an id: who breaks off now is told of the gap again.
    assert b"id:" not in gap and named in gap
    assert snapshot_block(place, [b'{"b":2}']).endswith(
        b'event: snapshot\ndata: {"open":[{"b":2}]}\n\n'
    )
