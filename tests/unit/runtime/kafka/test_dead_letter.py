"""A dead letter is written and read in one place: what was written is read again, and a stranger's
record is named."""

from types import SimpleNamespace
from typing import Any

import pytest

from runtime.connect import NORMALISER_ANCHOR
from runtime.records.dead_letter import (
    TOPIC,
    Cause,
    EncodedLetter,
    UncountedRecord,
    encode_letter,
    parse_letter,
)
from tally.config.keys import hmac_digest
from tally.errors import TallyError
from tally.time.instants import format_utc, parse_instant

SEEN = "2026-11-22T10:00:00.000Z"
RECORD = UncountedRecord("raw-traffic", 2, 9, b"367", b'{"phone": "31198570044", "in": -1}')
CAUSE = Cause("out_of_range", "/in: at least 0", SEEN, field="/in", attempts=2)


def received(letter: EncodedLetter) -> Any:
    """The letter as a Kafka client gives it."""
    millis = int(parse_instant(SEEN, "").timestamp() * 1000)
    return SimpleNamespace(
        key=lambda: letter.key,
        value=lambda: letter.value,
        headers=lambda: letter.headers,
        timestamp=lambda: (1, millis),
        partition=lambda: 0,
        offset=lambda: 5,
    )


def test_what_was_written_is_read_again() -> None:
    found = parse_letter(received(encode_letter(RECORD, CAUSE, b"key")))

    assert (found.id, found.place) == ("raw-traffic:2:9", ("raw-traffic", 2, 9))
    assert (found.reason, found.field, found.message) == ("out_of_range", "/in", "/in: at least 0")
    assert (found.attempts, found.first_seen, found.at) == (2, SEEN, SEEN)
    assert (found.key, found.value) == ("367", '{"phone": "[redacted]", "in": -1}')
    assert found.sha256 == hmac_digest(b"key", RECORD.value)


def test_topic_of_a_canonical_name_with_colons_is_no_riddle() -> None:
    record = RECORD._replace(topic="a:b")

    assert parse_letter(received(encode_letter(record, CAUSE, b""))).place == ("a:b", 2, 9)


@pytest.mark.parametrize("name", ["reason", "partition", "sha256"])
def test_record_of_the_topic_that_is_no_letter_is_named(name: str) -> None:
    whole = encode_letter(RECORD, CAUSE, b"")
    headers = [(told, value) for told, value in whole.headers if told != name]

    with pytest.raises(TallyError, match=f"dead-letters:0:5: no dead letter, .* lack {name}$"):
        parse_letter(received(whole._replace(headers=headers)))


def test_letter_whose_offset_is_no_number_is_named() -> None:
    whole = encode_letter(RECORD, CAUSE, b"")
    headers = [(told, b"-" if told == "offset" else value) for told, value in whole.headers]

    with pytest.raises(TallyError, match="its headers lack offset"):
        parse_letter(received(whole._replace(headers=headers)))


def test_texts_are_blacked_out_and_cut_and_half_a_character_is_told_by_its_number() -> None:
    cause = Cause("wrong_type", "\ud800" + "x" * 600, format_utc(parse_instant(SEEN, "")))
    headers = dict(encode_letter(RECORD, cause, b"").headers)

    assert headers["message"] == b"\\ud800" + b"x" * 499

    cause = Cause("wrong_type", "x" * 490 + " ann@example.org", SEEN)
    assert dict(encode_letter(RECORD, cause, b"").headers)["message"].endswith(b"x [redacted")


def test_the_normaliser_s_anchor_is_this_topic() -> None:
    assert NORMALISER_ANCHOR == TOPIC
