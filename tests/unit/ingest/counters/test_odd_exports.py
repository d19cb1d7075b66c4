"""Exports of people counters as they are found in folders: blanks, ends of days, bad lines."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingest.contract.vendor import VendorBody
from ingest.installation.arrival import Rules
from ingest.sources.registry import load_vendor_formats
from schemas import loader
from tests.unit.ingest.gateway.counter_gateway import CounterGateway, Json, opened, rejections
from tests.unit.ingest.messages import ARRIVED, interval


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[CounterGateway]:
    with opened(tmp_path) as one:
        yield one


def lines(*told: str, head: str = "start,end,in,out") -> bytes:
    return "\n".join((head, *told, "")).encode()


def counted(body: bytes, rules: Rules) -> list[tuple[str, int, int, int]]:
    """Begin, seconds, in and out of each line of an export, all of which have to be good."""
    form = load_vendor_formats(loader.builtin_sources()["traffic"])["axis_csv"]
    told = VendorBody(body, ARRIVED, rules, {"sensor": "accc00000001"})
    events = [interval(one, rules) for one in form.messages(told) if isinstance(one, bytes)]
    return [(one.happened_at[:16], one.interval_seconds, one.entries, one.exits) for one in events]


MINUTE = "2017-09-19 10:00:00,2017-09-19 10:01:00"
COUNTED = [("2017-09-19T08:00", 60, 3, 1)]


@pytest.mark.parametrize(
    "body",
    [
        lines(f"{MINUTE}, 3,1"),
        lines(f"{MINUTE},3 ,1"),
        lines(f"{MINUTE},3.0,1.00"),
        lines(f"{MINUTE},3,1", head="start, end, in, out"),
        lines(f'{MINUTE}, "3", "1"', head='"start" , "end", "in","out"'),
        lines(f"{MINUTE},3,1", ",,,", "", " , , , "),
        lines(f"{MINUTE},3,1").replace(b"\n", b"\r\n"),
        lines(f"{MINUTE},3,1").replace(b"\n", b"\r"),
        lines(f"{MINUTE},3,1,", head="start,end,in,out,name").replace(b"1,", b"1,T\xfcr"),
    ],
)
def test_blanks_and_points_of_an_export_are_no_fault(gateway: CounterGateway, body: bytes) -> None:
    assert counted(body, gateway.rules) == COUNTED


def test_lines_without_anything_are_counted_as_skipped(gateway: CounterGateway) -> None:
    status, answer = gateway.post("axis_csv", lines(f"{MINUTE},3,1", ",,,"), sensor="accc00000001")

    assert (status, answer["skipped"]) == (202, {"lines without anything in them": 1})


@pytest.mark.parametrize(
    ("line", "begins", "seconds"),
    [
        ("2017-09-18 23:59:00,2017-09-18 24:00:00", "2017-09-18T21:59", 60),
        ("2017-09-18 23:45:00,2017-09-19 00:00:00", "2017-09-18T21:45", 900),
        # Clocks go from 02:00 to 03:00.
        ("2017-03-26 01:45:00,2017-03-26 02:00:00", "2017-03-26T00:45", 900),
        ("2017-03-26 01:45:00,2017-03-26 03:00:00", "2017-03-26T00:45", 900),
        ("2017-03-26 02:00:00,2017-03-26 03:15:00", "2017-03-26T01:00", 900),
    ],
)
def test_an_end_as_the_clock_of_an_exporter_says_it(
    gateway: CounterGateway, line: str, begins: str, seconds: int
) -> None:
    assert counted(lines(f"{line},3,1"), gateway.rules) == [(begins, seconds, 3, 1)]


@pytest.mark.parametrize(
    ("line", "reason", "field", "why"),
    [
        (
            "2017-09-19 10:00:00,2017-09-19 10:00:00,3,1",
            *("out_of_range", "/columns", "column end: a time after the one"),
        ),
        (
            "2017-09-19 10:00:00,2017-09-19 09:00:00,3,1",
            *("out_of_range", "/columns", "column end: a time after the one"),
        ),
        (
            "2017-03-26 01:45:00,2017-03-26 02:30:00,3,1",
            *("out_of_range", "/columns", "column end: one time of the store's clock"),
        ),
        (
            "19.9.2017 10:00,2017-09-19 10:01:00,3,1",
            *("timestamp_not_rfc3339", "/happened_at", "column start: one time of the store's"),
        ),
    ],
)
def test_a_line_of_no_time_is_a_letter_with_its_columns_and_what_to_correct(
    gateway: CounterGateway, line: str, reason: str, field: str, why: str
) -> None:
    status, answer = gateway.post("axis_csv", lines(f"{MINUTE},3,1", line), sensor="accc00000001")

    assert (status, answer["accepted"], rejections(answer)) == (202, 1, [(reason, field)])
    told: Json = json.loads(*gateway.letters)
    assert told["why"].startswith(why)
    assert [*told["columns"].values()] == line.split(",")


@pytest.mark.parametrize(
    "bad",
    [
        b'"2017-09-19 10:01:00,2017-09-19 10:02:00,3,1',
        b"2017-09-19 10:01:00,2017-09-19 10:02:00,\xff,1",
        b'2017-09-19 10:01:00,2017-09-19 10:02:00,3,"' + b"1" * 200_000,
    ],
    ids=["a quote that is not closed", "no UTF-8", "more than a cell may have"],
)
def test_a_bad_line_takes_no_other_with_it(gateway: CounterGateway, bad: bytes) -> None:
    body = lines(f"{MINUTE},3,1") + bad + b"\n2017-09-19 10:02:00,2017-09-19 10:03:00,2,0\n"

    status, answer = gateway.post("axis_csv", body, sensor="accc00000001")

    assert (status, answer["accepted"], len(answer["rejected"])) == (202, 2, 1)
