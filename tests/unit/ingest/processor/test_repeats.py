"""An exact copy is marked, so that a storm of one receipt costs no reader any memory; a conflict
or a first copy never is."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ingest.normaliser.normalise import Normaliser, RecentFingerprints
from runtime.processor.step import Input
from tally.time.instants import format_utc
from tests.unit.ingest.messages import ARRIVED, RULES, TRAFFIC, encoded, pos

FAMILY = {"posTransactionTopic": "sales", "raw-traffic": "traffic"}
MARKED = "repeat"


def sender(most: int = 100) -> tuple[Normaliser, Any]:
    """A normaliser, and what says of a message whether its record is marked."""
    normaliser = Normaliser(RULES, 4, FAMILY, RecentFingerprints(most))

    def is_marked(message: Any, topic: str = "posTransactionTopic") -> bool:
        (output,) = normaliser.process(
            Input(topic, 0, 0, int(ARRIVED.timestamp() * 1000), None, encoded(message))
        )
        record = json.loads(output.value or b"")
        assert record.get(MARKED, True) is True
        return MARKED in record

    return normaliser, is_marked


def test_an_exact_copy_is_marked_and_its_first_copy_is_not() -> None:
    _, is_marked = sender()

    assert [is_marked(pos()) for _ in range(4)] == [False, True, True, True]
    assert [is_marked(TRAFFIC, "raw-traffic") for _ in range(2)] == [False, True]


def test_a_conflict_is_not_marked_but_its_copy_is() -> None:
    _, is_marked = sender()

    assert [is_marked(pos(kind=kind)) for kind in ("sale", "return", "sale", "return", "void")] == [
        False,
        False,
        True,
        True,
        False,
    ]


def test_what_does_not_change_the_receipt_does_not_hide_a_copy() -> None:
    _, is_marked = sender()

    assert [is_marked(pos(till_software=version)) for version in (1, 2)] == [False, True]


def test_after_forgetting_no_copy_is_marked_for_its_first_may_never_be_committed() -> None:
    normaliser, is_marked = sender()
    is_marked(pos())

    normaliser.restore(())

    assert [is_marked(pos()), is_marked(pos())] == [False, True]


def test_what_is_remembered_is_bounded_and_a_storm_stays_known() -> None:
    recent_fingerprints = RecentFingerprints(most=10)
    found = [
        recent_fingerprints.check_and_add("storm")
        for number in range(1000)
        if not recent_fingerprints.check_and_add(f"other {number}")
    ]

    assert found == [False] + [True] * 999
    assert len(recent_fingerprints._latest) == 10
    assert not recent_fingerprints.check_and_add("other 900")


def test_a_marked_record_is_else_the_same() -> None:
    normaliser = Normaliser(RULES, 4, FAMILY)
    first, copy = (
        normaliser.process(Input("posTransactionTopic", 1, 7, 1505908800000, b"k", encoded(pos())))[
            0
        ]
        for _ in range(2)
    )

    assert json.loads(copy.value or b"") == {**json.loads(first.value or b""), MARKED: True}
    assert (copy.key, copy.partition) == (first.key, first.partition)


def dead_letter_of(message: bytes, home: Path, **headers: bytes) -> tuple[bytes, dict[str, str]]:
    normaliser = Normaliser(replace(RULES, home=home), 4, FAMILY)
    given = Input(
        "posTransactionTopic",
        2,
        9,
        int(ARRIVED.timestamp() * 1000),
        b"key ann@example.org",
        message,
        tuple(headers.items()),
    )
    (letter,) = normaliser.process(given)
    assert letter.topic == "dead-letters" and letter.key == b"key [redacted]"
    return letter.value or b"", {name: value.decode() for name, value in letter.headers}


@pytest.mark.parametrize(
    "message",
    [
        pos(loyalty_id=31198570044),
        pos(loyalty_id="ann31198570044", kind="gift"),
        pos(customer={"name": "31198570044"}, currency="XXX"),
        {
            "4111111111111111": 1,
            "31198570044": "4111111111111111",
            **pos(phone="31198570044", kind="+31198570044"),
        },
    ],
)
def test_a_dead_letter_tells_nothing_personal_in_value_or_headers(
    message: Any, tmp_path: Path
) -> None:
    message = {name: value for name, value in message.items() if name != "31198570044"}

    value, headers = dead_letter_of(encoded(message), tmp_path)

    assert b"31198570044" not in value and b"4111111111111111" not in value
    assert "31198570044" not in str(headers) and "4111111111111111" not in str(headers)


def test_the_digest_is_keyed_by_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    digests = [dead_letter_of(b"broken", home)[1]["sha256"] for home in (one, one, other)]
    file = one / "secrets" / "dead-letters.key"

    assert digests[0] == digests[1] != digests[2]
    assert [oct(os.stat(path).st_mode & 0o777) for path in (file, file.parent)] == [
        "0o600",
        "0o700",
    ]
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_of_the_first_seen_header_an_instant_is_taken_and_nothing_else(tmp_path: Path) -> None:
    assert (
        dead_letter_of(b"", tmp_path, first_seen=b"2017-01-01T00:00:00.000Z")[1]["first_seen"]
        == "2017-01-01T00:00:00.000Z"
    )
    assert dead_letter_of(b"", tmp_path, first_seen=b"ann 31198570044")[1][
        "first_seen"
    ] == format_utc(ARRIVED)


def test_the_python_type_leaves_the_mark_out_of_all_others() -> None:
    (output,) = Normaliser(RULES, 4, FAMILY).process(
        Input("posTransactionTopic", 0, 0, 1505908800000, None, encoded(pos()))
    )

    assert MARKED not in msgspec.json.decode(output.value or b"")
