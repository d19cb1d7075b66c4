"""The client of the gateway, as replays, the twin and the demo use it; dropped files are sent by
the same one (test_drop_answers.py)."""

import pytest

from ingest.gateway.submission import MAX_BYTES, MAX_DAYS, MAX_STORES
from ingest.senders.gateway_client import GatewayChannel, batch_lines, connect_gateway
from tally.errors import BodyRefused, GatewayUnavailable
from tests.unit.ingest.drop.drop_server import Answer, Request, answering

PARTLY = {"accepted": 1, "rejected": [{"line": 2, "errors": ["wrong"]}]}


def test_channel_sends_many_lines_at_once_and_no_refused_one_again() -> None:
    lines = [b"%d" % number for number in range(150)]

    with (
        answering(lambda _: Answer(202, PARTLY)) as (address, seen),
        connect_gateway(address) as gateway,
    ):
        channel = GatewayChannel(gateway, "/v1/events/pos")
        for line in lines:
            channel.send("", line)
        assert len(seen) == 2
        channel.flush()
        channel.flush()

    assert b"\n".join(request.content for request in seen).split(b"\n") == lines
    assert [request.content.count(b"\n") for request in seen] == [63, 63, 21]
    assert {(request.path, request.media_type) for request in seen} == {
        ("/v1/events/pos", "application/x-ndjson")
    }


def test_each_batch_fits_into_a_body_of_the_gateway() -> None:
    lines = [b"x"] * 200 + [b"x" * 1_500_000] * 3

    batches = [*batch_lines(lines)]

    assert [line for batch in batches for line in batch] == lines
    assert max(len(batch) for batch in batches) <= min(MAX_STORES, MAX_DAYS)
    assert max(len(b"\n".join(batch)) for batch in batches) <= MAX_BYTES
    assert [*batch_lines([])] == []


def test_body_that_is_refused_as_a_whole_is_not_sent_again() -> None:
    with (
        answering(lambda _: Answer(413, {"detail": "too large"})) as (address, seen),
        connect_gateway(address) as gateway,
        pytest.raises(BodyRefused, match=r"refused a body \(413\): too large"),
    ):
        gateway.post("/v1/events/pos", b"{}")

    assert len(seen) == 1


def test_who_wants_all_accepted_gets_the_first_error() -> None:
    with (
        answering(lambda _: Answer(202, PARTLY)) as (address, _),
        connect_gateway(address) as gateway,
        pytest.raises(BodyRefused, match=r"not all was accepted: \['wrong'\]"),
    ):
        gateway.post_accepted("/v1/events/pos", [b"{}", b"{"])


def test_busy_gateway_is_asked_again_and_no_sooner_than_it_says() -> None:
    later = Answer(503, {"detail": "no room"}, {"Retry-After": "1"})
    answers = iter([later, Answer(202, PARTLY)])
    waits: list[str] = []

    def answer(_request: Request) -> Answer:
        return next(answers)

    with answering(answer) as (address, seen), connect_gateway(address, 10) as gateway:
        found = gateway.post("/v1/events/pos", b"{}", say=waits.append)

    assert (found.accepted, found.rejected[0].line, len(seen)) == (1, 2, 2)
    assert waits == ["the gateway answers 503: no room; it is asked again for 10 s"]


def test_gateway_that_stays_busy_or_away_is_an_error_that_names_the_fix() -> None:
    with (
        answering(lambda _: Answer(429, b"", {"Retry-After": "30"})) as (address, _),
        connect_gateway(address, 1) as gateway,
        pytest.raises(GatewayUnavailable, match="the gateway answers 429") as busy,
    ):
        gateway.post("/v1/events/pos", b"{}")
    with (
        connect_gateway("127.0.0.1:9", 0) as gateway,
        pytest.raises(GatewayUnavailable, match="`tally up gateway`") as away,
    ):
        gateway.post("/v1/events/pos", b"{}")

    assert (busy.value.wait_seconds, busy.value.is_away) == (30, False)
    assert (away.value.wait_seconds, away.value.is_away) == (0, True)
