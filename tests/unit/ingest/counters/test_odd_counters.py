"""People counters that push something odd beside what is good: one part takes no other with it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingest.contract.vendor import UnreadablePart, WorkBudget, collect_parts
from tally.errors import RejectedEvent
from tests.unit.ingest.gateway.counter_gateway import (
    DEEP,
    GOOD,
    LATE,
    LOGIC,
    CounterGateway,
    Json,
    axis,
    measured,
    opened,
    record,
    rejections,
    xovis,
)
from tests.unit.ingest.messages import TRAFFIC, interval

NO_LOGICS = ("missing_field", "/logics_data")
NO_SERIAL = ("missing_field", "/logics_data/sensor_info/serial_number")
EMPTY = {"parts without anything in them": 1}


def wrong(place: str) -> tuple[str, str]:
    return "wrong_type", f"/logics_data/logics/{place}"


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[CounterGateway]:
    with opened(tmp_path) as one:
        yield one


@pytest.mark.parametrize(
    ("form", "body", "rejected", "skipped"),
    [
        ("axis", axis(measured(), measured(**LATE, items=None)), [("missing_field", "/in")], {}),
        ("axis", axis(measured(), measured(**LATE, items=[None])), [("missing_field", "/in")], {}),
        ("axis", axis(measured(), measured(**LATE, items=7)), [("missing_field", "/in")], {}),
        ("axis", axis(measured(), None), [], EMPTY),
        ("axis", axis(None, measured()), [], EMPTY),
        ("axis", axis(measured(), 7), [("wrong_type", "/data/measurements/1")], {}),
        ("axis", axis(measured(items=[*measured()["items"], None])), [], {}),
        (
            "xovis",
            xovis({"id": 1, "records": [record(), record(counts=None)]}),
            [("missing_field", "/in")],
            {},
        ),
        ("xovis", xovis({"id": 1, "records": [record(), None]}), [], EMPTY),
        ("xovis", xovis({"id": 1, "records": ["x", record()]}), [wrong("0/records/0")], {}),
        ("xovis", xovis(LOGIC, {"id": 2, "records": None}), [], EMPTY),
        ("xovis", xovis(LOGIC, {"id": 2}), [wrong("1/records")], {}),
        ("xovis", xovis(LOGIC, None), [], EMPTY),
        ("xovis", xovis(7, LOGIC), [wrong("0")], {}),
        ("xovis", b"[%s, null]" % GOOD, [], EMPTY),
        ("xovis", b"[null, %s]" % GOOD, [], EMPTY),
        ("xovis", b'[%s, {"a": 1, "a": 2}]\n' % GOOD, [("duplicate_field", "/a")], {}),
        ("xovis", b'[%s, {"logics_data"' % GOOD, [("not_json", "")], {}),
        ("xovis", GOOD + b'{"event_data":{}}', [NO_LOGICS], {}),
        ("xovis", b'{"event_data":{}}' + GOOD, [NO_LOGICS], {}),
        ("xovis", GOOD + b'{"logics_data": {"lo', [("not_json", "")], {}),
        ("xovis", GOOD + b'{"logics_data": null}', [("wrong_type", "/logics_data")], {}),
        ("xovis", GOOD + xovis(LOGIC, name="door"), [NO_SERIAL], {}),
        ("xovis", GOOD + DEEP, [("too_deep", "")], {}),
        ("xovis", GOOD + b"\n{}\n", [], EMPTY),
    ],
)
def test_what_is_good_beside_a_bad_part_counts(
    gateway: CounterGateway, form: str, body: bytes, rejected: Json, skipped: Json
) -> None:
    status, answer = gateway.post(form, body)

    assert (status, answer["accepted"]) == (202, 1)
    assert (rejections(answer), answer.get("skipped", {})) == (rejected, skipped)
    assert (len(gateway.stored), len(gateway.letters)) == (1 + len(rejected), len(rejected))


def test_a_letter_has_the_part_as_it_came_and_what_is_wrong_with_it(
    gateway: CounterGateway,
) -> None:
    status, _ = gateway.post("xovis", xovis(LOGIC, {"id": 2, "zone": "x"}))

    (letter,) = gateway.letters
    assert (status, json.loads(letter)) == (
        202,
        {
            "serial": "00:6E:02:00:00:01:2",
            "reason": "wrong_type",
            "field": "/logics_data/logics/1/records",
            "message": "/logics_data/logics/1/records: a list is wanted",
            "unread": {"id": 2, "zone": "x"},
        },
    )


def test_what_is_behind_a_whole_object_is_kept_byte_by_byte(gateway: CounterGateway) -> None:
    gateway.post("xovis", GOOD + b'\n{"logics_data": {"lo \xff')

    assert gateway.letters == [b'{"logics_data": {"lo \xff']


def test_an_interval_that_is_refused_keeps_its_counts_as_they_came(gateway: CounterGateway) -> None:
    items = [{"direction": "in", "count": 2}, ["out", 5]]
    gateway.post("axis", axis(measured(), measured(**LATE, items=items)))

    (letter,) = gateway.letters
    assert json.loads(letter)["counts"] == [["in", 2], [None, ["out", 5]]]


def test_a_message_of_tally_s_own_in_a_vendor_s_body_does_not_count(
    gateway: CounterGateway,
) -> None:
    status, answer = gateway.post("xovis", GOOD + json.dumps(TRAFFIC).encode())

    assert (status, answer["accepted"], rejections(answer)) == (202, 1, [NO_LOGICS])


@pytest.mark.parametrize(
    ("form", "body", "named"),
    [
        ("axis", axis(None), "/data/measurements/0: an object is wanted"),
        ("axis", axis(7, None), "/data/measurements/0: an object is wanted"),
        ("axis", axis(measured())[:-40], "the message is not JSON"),
        ("axis", axis(measured(), name="door-1"), "/sensor/serial: the field is missing"),
        ("xovis", b"[null]", "an object is wanted"),
        ("xovis", b'{"event_data":{}}', "/logics_data: the field is missing"),
        ("xovis", GOOD[:-3], "the message is not JSON"),
        ("xovis", xovis({"id": 1}), "/logics_data/logics/0/records: a list is wanted"),
        ("xovis", xovis(LOGIC, name="d"), "sensor_info/serial_number: the field is missing"),
        ("xovis", b"start,end,in,out", "the message is not JSON"),
    ],
)
def test_a_body_of_which_nothing_can_be_read_is_refused(
    gateway: CounterGateway, form: str, body: bytes, named: str
) -> None:
    status, answer = gateway.post(form, body)

    assert (status, gateway.stored) == (400, [])
    assert named in answer["detail"]


def test_a_part_that_is_too_large_to_be_stored_is_counted_in_a_letter(
    gateway: CounterGateway,
) -> None:
    status, answer = gateway.post("xovis", GOOD + b'{"a": "' + b"x" * 3_000_000)

    assert (status, rejections(answer)) == (202, [("too_large", "")])
    assert [json.loads(letter)["unread"] for letter in gateway.letters] == [{"too_large": 1}]


def test_parts_that_cannot_be_read_are_not_looked_at_without_end() -> None:
    met: list[None] = []

    def endless() -> Iterator[UnreadablePart]:
        while True:
            met.append(None)
            yield UnreadablePart(RejectedEvent("wrong_type", f"/{len(met)}", ""), b"7")

    with pytest.raises(RejectedEvent) as refused:
        list(collect_parts(endless(), WorkBudget(10)))
    assert (refused.value.field, len(met) < 100_000) == ("/1", True)


@pytest.mark.parametrize(
    "name", ["passers_by", "groups_in", "revision", "heartbeat", "schema_version"]
)
def test_null_of_an_optional_field_is_not_told(name: str) -> None:
    told = {key: value for key, value in TRAFFIC.items() if key != name}

    assert interval({**told, name: None}) == interval(told)


@pytest.mark.parametrize("name", ["in", "out", "interval_seconds", "store_id"])
def test_null_of_a_field_that_is_needed_is_refused(name: str) -> None:
    with pytest.raises(RejectedEvent) as refused:
        interval({**TRAFFIC, name: None})
    assert (refused.value.reason, refused.value.field) == ("wrong_type", f"/{name}")


EARLY, OVER = "2017-09-19T10:00:00.013Z", "2017-09-19T10:01:00.010Z"
# The same in milliseconds.
EARLY_MS, OVER_MS = 1505815200013, 1505815260010
SENT_MS = {"serial_number": "00:6E:02:00:00:02", "time": OVER_MS}


@pytest.mark.parametrize(
    ("form", "body"),
    [
        ("axis", axis(measured(utcFrom=EARLY, utcTo=OVER))),
        ("axis", axis(measured(utcFrom="2017-09-19T09:59:59.5Z"))),
        ("xovis", xovis({"id": 1, "records": [record(**{"from": EARLY, "to": OVER})]})),
        (
            "xovis",
            xovis({"id": 1, "records": [record(**{"from": EARLY_MS, "to": OVER_MS})]}, **SENT_MS),
        ),
        # Sent at once, at an instant that is rounded up as its end is.
        (
            "xovis",
            xovis(
                {"id": 1, "records": [record(to="2017-09-19T10:00:59.7Z")]},
                serial_number="00:6E:02:00:00:01",
                time="2017-09-19T10:00:59.8Z",
            ),
        ),
    ],
)
def test_a_timer_that_is_milliseconds_late_or_early_tells_of_whole_seconds(
    gateway: CounterGateway, form: str, body: bytes
) -> None:
    status, answer = gateway.post(form, body)

    assert (status, answer) == (202, {"accepted": 1, "rejected": []})
    (stored,) = gateway.stored
    counted = interval(stored, gateway.rules)
    assert (counted.happened_at, counted.interval_seconds) == ("2017-09-19T10:00:00.000Z", 60)
