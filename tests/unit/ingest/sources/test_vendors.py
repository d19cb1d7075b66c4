"""A vendor's format at the gateway: one body, many messages, ahead of the raw topic."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from httpx import Response

from ingest.contract.vendor import MAX_EVENTS
from ingest.gateway.app import build_app
from ingest.gateway.async_producer import AsyncProducer, InFlightLimit
from ingest.gateway.backlog import BacklogMonitor, WaitingMessages
from ingest.gateway.submission import Endpoint, source_endpoints
from ingest.sources.registry import load_conversion
from schemas.source import BadSource, Source, read_json_file, read_source
from tests.unit.architecture.counts.sources import ROOT
from tests.unit.ingest.gateway.stand_ins import Client, StandInProducer
from tests.unit.ingest.messages import RULES

EXAMPLE = read_json_file(read_source(ROOT / "tests" / "e2e" / "eleventh"), "example.json")
FORMAT = """
import json

from ingest.contract.vendor import SkippedPart
from tally.errors import RejectedEvent


def messages(body):
    if not body.content.startswith(b"site="):
        raise RejectedEvent("not_json", "", "the body does not begin with site=")
    site, counts = body.content[5:].decode().split("|")
    for number, count in enumerate(counts.split(",")):
        if count == "-":
            yield SkippedPart("empty bars")
            continue
        yield json.dumps({**EXAMPLE, "store_id": site, "device_id": f"c-{number}",
                          "arrived": int(count)}).encode()


EXAMPLE = EXAMPLE_HERE
"""
Post = Callable[..., Response]


@pytest.fixture
def source(tmp_path: Path) -> Source:
    """The eleventh source with a vendor's format planted beside it."""
    folder = tmp_path / "planted"
    shutil.copytree(ROOT / "tests" / "e2e" / "eleventh", folder)
    (folder / "vendors").mkdir()
    text = FORMAT.replace("EXAMPLE_HERE", repr(EXAMPLE))
    (folder / "vendors" / "bars.py").write_text(text, "utf-8")
    # A name of its own: modules are loaded once a process, by the source's name.
    descriptor = (folder / "source.yaml").read_text("utf-8")
    name = f"q{abs(hash(str(tmp_path)))}"[:30]
    (folder / "source.yaml").write_text(
        descriptor.replace("name: queues", f"name: {name}"), "utf-8"
    )
    return read_source(folder)


@pytest.fixture
def taken(source: Source) -> list[Endpoint]:
    return list(source_endpoints(source))


@pytest.fixture
def producer() -> StandInProducer:
    return StandInProducer()


@pytest.fixture
def post(producer: StandInProducer, taken: list[Endpoint]) -> Iterator[Post]:
    watch = BacklogMonitor(lambda: WaitingMessages(0, None), lambda _waiting: None)
    watch.refresh()
    async_producer = AsyncProducer(
        lambda _note: producer, InFlightLimit(messages=100, bytes=100_000)
    )
    client = Client(build_app(async_producer, RULES, watch, taken))
    yield lambda body, **headers: client.request(
        "POST", "/v1/events/queues/bars", content=body, headers=headers
    )
    async_producer.close(0)


def test_a_source_has_its_own_path_and_one_for_each_format(taken: list[Endpoint]) -> None:
    assert [one.path for one in taken] == ["/v1/events/queues", "/v1/events/queues/bars"]
    assert {one.topic for one in taken} == {"raw-queues"}


def test_each_event_of_a_body_is_a_message_of_its_own(
    post: Post, producer: StandInProducer, source: Source
) -> None:
    answer = post(b"site=406|3,5")

    assert (answer.status_code, answer.json()) == (202, {"accepted": 2, "rejected": []})
    stored = [(topic, key, json.loads(value)["arrived"]) for topic, key, value in producer.stored]
    assert stored == [("raw-queues", "406", 3), ("raw-queues", "406", 5)]


def test_a_bad_event_is_told_by_its_number_and_stored_to_become_a_dead_letter(
    post: Post, producer: StandInProducer
) -> None:
    answer = post(b"site=406|3,-5,4")

    assert (answer.status_code, answer.json()["accepted"]) == (202, 2)
    (rejected,) = answer.json()["rejected"]
    assert (rejected["line"], rejected["errors"][0]["field"]) == (2, "/arrived")
    stored = [(key, json.loads(value)["arrived"]) for _, key, value in producer.stored]
    assert sorted(stored) == [("", -5), ("406", 3), ("406", 4)]


def test_a_body_of_nothing_but_bad_events_is_stored_too(
    post: Post, producer: StandInProducer
) -> None:
    answer = post(b"site=406|-5")

    assert (answer.status_code, answer.json()["accepted"]) == (202, 0)
    assert len(producer.stored) == 1


def test_a_form_that_fails_is_a_rejection_and_never_an_error_of_the_gateway(
    post: Post, producer: StandInProducer
) -> None:
    answer = post(b"site=406|3,x,4")

    assert (answer.status_code, answer.json()["accepted"]) == (202, 1)
    (rejected,) = answer.json()["rejected"]
    assert (rejected["line"], rejected["errors"][0]["code"]) == (2, "reading_failed")
    assert sorted(key for _, key, _ in producer.stored) == ["", "406"]


def test_what_is_no_event_is_counted_in_the_answer_and_kept_nowhere(
    post: Post, producer: StandInProducer
) -> None:
    assert post(b"site=406|-,3,-").json()["skipped"] == {"empty bars": 2}
    assert len(producer.stored) == 1

    answer = post(b"site=406|-")

    assert (answer.status_code, answer.json()["accepted"]) == (200, 0)
    assert len(producer.stored) == 1


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"nothing that it knows", {}, 400),
        (b"", {}, 400),
        (b"site=406|3", {"Content-Encoding": "gzip"}, 415),
        (b"site=406|" + b",".join([b"1"] * (MAX_EVENTS + 1)), {}, 413),
    ],
)
def test_a_body_that_cannot_be_taken_is_refused_and_nothing_of_it_stored(
    post: Post, producer: StandInProducer, body: bytes, headers: dict[str, str], status: int
) -> None:
    answer = post(body, **headers)

    assert (answer.status_code, answer.json()["status"], producer.stored) == (status, status, [])


def test_a_format_without_its_function_is_named(source: Source) -> None:
    (source.folder / "vendors" / "empty.py").write_text("", "utf-8")

    with pytest.raises(BadSource, match=r"vendors/empty.py: no function `messages`"):
        list(source_endpoints(source))


def test_a_contract_that_cannot_be_loaded_is_named(source: Source) -> None:
    (source.folder / "contract.py").write_text("import nothing_of_the_sort", "utf-8")

    with pytest.raises(BadSource, match=r"contract.py: cannot be loaded: No module named"):
        load_conversion(source)
