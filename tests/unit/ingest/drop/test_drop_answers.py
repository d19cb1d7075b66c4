"""What becomes of dropped files by the answers of the gateway."""

import os
import time
from dataclasses import replace
from pathlib import Path
from threading import Timer
from typing import Any

import httpx
import pytest
from typing_extensions import override

from ingest.senders.drop.folder import DropFolder
from ingest.senders.drop.rounds import FolderUploader
from ingest.senders.gateway_client import connect_gateway
from tests.unit.ingest.drop.drop_folder import (
    AT,
    DAY,
    beside,
    dropped,
    handed_over,
    handing_over,
    names,
    taken,
)
from tests.unit.ingest.drop.drop_server import Answer, Request, answering

BAD = {"field": "/in", "code": "wrong_type", "message": "/in: a whole number is wanted"}


@pytest.mark.parametrize("name", ["pos/day.json", "traffic/axis_csv/sensor=a/year.csv"])
def test_file_too_large_is_refused_without_being_read(tmp_path: Path, name: str) -> None:
    file = dropped(tmp_path, name)
    os.truncate(file, 10**12)

    summary, seen = handed_over(tmp_path, taken)

    assert (summary["refused"], seen) == (1, [])
    assert "export fewer days" in beside(tmp_path, "*.refused.json")["detail"]


def test_ndjson_of_any_size_goes_in_lots_and_its_lines_are_counted_through(tmp_path: Path) -> None:
    lines = [b'{"number": %d}\n' % number for number in range(1, 151)]
    lines[69] = b"\n"
    lines[149] = b'{"number": "bad"}'
    dropped(tmp_path, "pos/year.ndjson", b"".join(lines))

    def answer(request: Request) -> Answer:
        found = request.content.split(b"\n")
        bad = [number for number, line in enumerate(found, start=1) if b"bad" in line]
        good = sum(b"number" in line for line in found) - len(bad)
        rejected = [{"line": number, "errors": [BAD]} for number in bad]
        return Answer(202 if good else 422, {"accepted": good, "rejected": rejected})

    summary, seen = handed_over(tmp_path, answer)

    assert b"".join(one.content for one in seen) == b"".join(lines)
    assert [one.content.count(b"\n") for one in seen] == [64, 64, 21]
    assert (summary["taken"], summary["accepted"], summary["rejected"]) == (1, 148, 1)
    # Right beside the file, which holds the line.
    assert beside(tmp_path, "done/*/pos/year.ndjson.rejected.json") == {
        "accepted": 148,
        "rejected_count": 1,
        "rejected": [{"line": 150, "errors": [BAD]}],
        "skipped": {},
    }


def test_a_line_that_no_body_can_hold_refuses_the_file(tmp_path: Path) -> None:
    dropped(tmp_path, "pos/day.ndjson", b"{}\n" * 70 + b"x" * 5_300_000)

    summary, seen = handed_over(tmp_path, taken)

    assert (summary["refused"], len(seen)) == (1, 1)
    assert "line 71 is longer" in beside(tmp_path, "*.refused.json")["detail"]


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (422, {"accepted": 0, "rejected": [{"line": 1, "errors": [BAD]}]}),
        # Nothing that counts is no reason to say that all is well.
        (200, {"accepted": 0, "rejected": [], "skipped": {"not over": 3}}),
    ],
)
def test_file_of_which_nothing_counts_is_refused(tmp_path: Path, status: int, told: Any) -> None:
    dropped(tmp_path, "pos/day.json")

    summary, _ = handed_over(tmp_path, lambda _: Answer(status, told))

    assert (summary["taken"], summary["refused"]) == (0, 1)
    found = beside(tmp_path, "*.refused.json")
    assert {name: found[name] for name in told} == told


def test_refused_file_has_the_answer_beside_it_and_holds_up_none(tmp_path: Path) -> None:
    problem = {"title": "Bad Request", "detail": "the body is no JSON"}
    dropped(tmp_path, "pos/bad.json", b"bad", AT)
    dropped(tmp_path, "pos/good.json", b"good", AT + 1)

    summary, _ = handed_over(
        tmp_path, lambda one: Answer(400, problem) if one.content == b"bad" else Answer()
    )

    assert (summary["taken"], summary["refused"]) == (1, 1)
    found = beside(tmp_path, "refused/*/pos/bad.json.refused.json")
    assert (found["status"], found["detail"]) == (400, "the body is no JSON")
    assert names(tmp_path) >= {"refused/pos/bad.json", "done/pos/good.json"}


@pytest.mark.parametrize(
    "body", [b"<html>a router's page</html>", [], {"accepted": "1", "rejected": [1]}, b""]
)
def test_answer_of_somebody_else_is_no_acceptance(tmp_path: Path, body: Any) -> None:
    dropped(tmp_path, "pos/day.json")

    summary, _ = handed_over(tmp_path, lambda _: Answer(200, body))

    assert (summary["taken"], summary["refused"]) == (0, 1)
    assert beside(tmp_path, "*.refused.json")["status"] == 200


class ClientOfOddAddresses(httpx.Client):
    @override
    def post(self, url: httpx.URL | str, **options: Any) -> httpx.Response:
        if options["content"] == b"odd":
            raise httpx.InvalidURL("URL too long")
        return super().post(url, **options)


def test_file_without_an_address_is_refused_and_holds_up_none(tmp_path: Path) -> None:
    dropped(tmp_path, "pos/odd.json", b"odd", AT)
    dropped(tmp_path, "pos/good.json", b"good", AT + 1)

    with (
        handing_over(tmp_path, taken) as (rounds, _),
        ClientOfOddAddresses(base_url=rounds.gateway.http.base_url) as client,
    ):
        rounds.gateway = replace(rounds.gateway, http=client)
        rounds.run()

    assert (rounds.counts["taken"], rounds.counts["refused"]) == (1, 1)
    assert beside(tmp_path, "*.refused.json")["detail"] == "URL too long"


def test_file_that_cannot_be_read_or_sent_holds_up_none(tmp_path: Path) -> None:
    deep = "/".join(["x" * 250] * 12)
    dropped(tmp_path, f"pos/{deep}/a.json", modified_at=AT)
    busy = dropped(tmp_path, "pos/busy.json", b"busy", AT + 1)
    dropped(tmp_path, "pos/good.json", b"good", AT + 2)

    def answer(request: Request) -> Answer:
        if request.content == b"busy":
            busy.unlink()
        return Answer(414, b"") if len(request.path) > 2000 else Answer()

    summary, _ = handed_over(tmp_path, answer)

    assert (summary["taken"], summary["refused"], summary["waiting"]) == (1, 1, 1)
    assert "done/pos/good.json" in names(tmp_path)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_gateway_that_takes_nothing_now_leaves_the_file_where_it_is(
    tmp_path: Path, status: int
) -> None:
    dropped(tmp_path, "pos/day.json")
    answers = iter([Answer(status, b"busy"), Answer()])

    summary, seen = handed_over(tmp_path, lambda _: Answer(status, b"busy"))
    assert (summary["waiting"], len(seen)) == (1, 1)
    assert names(tmp_path) == {"pos/day.json"}

    summary, seen = handed_over(tmp_path, lambda _: next(answers), patience_seconds=10)
    assert (summary["taken"], len(seen)) == (1, 2)


def test_no_sooner_than_the_gateway_asks_and_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dropped(tmp_path, "pos/day.json")
    later = Answer(503, {"detail": "no room"}, {"Retry-After": "2"})
    answers = iter([later, Answer()])

    began = time.monotonic()
    summary, _ = handed_over(tmp_path, lambda _: next(answers), patience_seconds=10)

    assert summary["taken"] == 1 and time.monotonic() - began >= 2
    said = capsys.readouterr().err
    assert "the gateway answers 503: no room; it is asked again for 10 s" in said


def test_retry_after_is_kept_to_whatever_waits(tmp_path: Path) -> None:
    dropped(tmp_path, "pos/one.json")
    dropped(tmp_path, "pos/two.json")
    later = {"Retry-After": "3600"}

    with handing_over(tmp_path, lambda _: Answer(503, b"", later)) as (rounds, seen):
        rounds.run()
        rounds.run()
        assert (rounds.waiting, len(seen)) == (2, 1)


def test_file_that_breaks_the_gateway_comes_after_those_that_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.senders.drop.rounds._PAUSE_SECONDS", 0)
    for number in range(4):
        dropped(tmp_path, f"pos/bad-{number}.json", b"bad", AT + number)
    dropped(tmp_path, "pos/good.json", b"good", AT + 10)

    def answer(request: Request) -> Answer:
        return Answer(500, b"") if request.content == b"bad" else Answer()

    with handing_over(tmp_path, answer) as (rounds, _):
        rounds.run()
        assert rounds.counts["taken"] == 0
        rounds.run()
        assert (rounds.counts["taken"], rounds.waiting) == (1, 4)


def test_gateway_that_is_not_there_is_said_once_and_found_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dropped(tmp_path, "pos/day.json")
    folder = DropFolder(tmp_path, 0)
    with connect_gateway("127.0.0.1:9", 0.1) as gateway:
        rounds = FolderUploader(folder, gateway, DAY)
        rounds.run()
        rounds.run()
    said = [line for line in capsys.readouterr().err.splitlines() if "not sent" in line]
    assert len(said) == 1 and "tally up gateway" in said[0]

    with answering(taken) as (address, _), connect_gateway(address) as gateway:
        rounds.gateway = gateway
        rounds.run()
    assert (rounds.counts["taken"], rounds.waiting) == (1, 0)


def test_who_is_told_to_stop_does_not_wait_for_the_gateway(tmp_path: Path) -> None:
    dropped(tmp_path, "pos/day.json")
    later = Answer(503, b"", {"Retry-After": "50"})
    with handing_over(tmp_path, lambda _: later, patience_seconds=60) as (rounds, _):
        Timer(0.3, rounds.gateway.stopped.set).start()
        began = time.monotonic()
        rounds.run()
    assert time.monotonic() - began < 50
    assert names(tmp_path) == {"pos/day.json"}


def test_environments_proxy_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    dropped(tmp_path, "pos/day.json")

    assert handed_over(tmp_path, taken)[0]["taken"] == 1
