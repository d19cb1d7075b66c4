"""The normaliser as a process on a broker of its own: good, bad, repeated and future messages,
kills, and event-time order."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ingest.senders.replay.complete_journey import ReplayScope, extent
from ingest.senders.replay.perturbation import CORRUPTIONS
from tally.config.keys import hmac_digest, load_digest_key
from tally.config.settings import Settings
from tally.events.identity import partition_number
from tests.integration.ingest.conftest import (
    KILLED,
    Start,
    committed_messages,
    starter,
    stop,
    wait_until,
    wait_until_read,
)
from tests.support.clients.producers import connected_producer
from tests.unit.ingest.messages import TRAFFIC, encoded, pos

if TYPE_CHECKING:
    from ops.local.processes.service import Site

RAW = ("posTransactionTopic", "raw-traffic")
MONTH = ("--to", "2017-01-15")
FAULTS = ("before_offsets:5", "before_commit:9", "after_commit:13")
CRASHING = {"TALLY_TRANSACTION_RECORDS": "50", "TALLY_KEYSPACE": "test_crashing"}


@pytest.fixture(scope="module")
def broker(own_broker: "Site") -> Settings:
    return own_broker.settings


@pytest.fixture
def begin(own_broker: "Site") -> Iterator[Start]:
    """Starts processes on the module's own broker."""
    with starter({**own_broker.environment, "TALLY_KAFKA": own_broker.settings.kafka}) as begin:
        yield begin


def normalise_all(begin: Start, settings: Settings, **variables: str) -> None:
    """Run the normaliser until it has read everything."""
    ready = settings.home / "normaliser.ready"
    ready.unlink(missing_ok=True)
    process = begin("ingest.normaliser", TALLY_READY_FILE=str(ready), **variables)
    wait_until(ready.exists)
    wait_until_read(settings, "normaliser", RAW)
    assert stop(process) == 0


def canonical(settings: Settings, topic: str) -> list[dict[str, Any]]:
    """Canonical records in order of their Kafka time; each lies in its store's partition under
    its store's key."""
    records = []
    for message in sorted(
        committed_messages(settings, topic),
        key=lambda message: (message.timestamp()[1], message.offset()),
    ):
        record = json.loads(message.value() or b"")
        assert (message.key() or b"").decode() == record["store_id"]
        assert message.partition() == partition_number(record["store_id"], settings.partitions)
        records.append(record)
    return records


def dead_letter_headers(settings: Settings) -> list[dict[str, str]]:
    letters = [
        dict(message.headers() or ()) for message in committed_messages(settings, "dead-letters")
    ]
    return [
        {name: value.decode() for name, value in letter.items() if isinstance(value, bytes)}
        for letter in letters
    ]


def test_every_raw_message_becomes_one_record_or_one_dead_letter(
    begin: Start, broker: Settings
) -> None:
    good = encoded(pos(operation_id="e2e", happened_at="2017-09-19T22:48:03+00:00"))
    bad = {
        reason: spoil(good.replace(b'": ', b'":'))
        for reason, spoil in CORRUPTIONS.items()
        if reason != "too_deep"
    }
    producer = connected_producer(broker)
    for value in (
        good,
        good,
        encoded(pos(operation_id="e2e", transaction_id=43)),
        *bad.values(),
        None,
    ):
        producer.produce("posTransactionTopic", value, b"any key ann@example.org")
    producer.produce("raw-traffic", encoded(TRAFFIC))
    assert producer.flush(30) == 0

    normalise_all(begin, broker)

    assert sorted(record["event_id"] for record in canonical(broker, "sales")) == [
        "pos:e2e:123:0:42"
    ] * 2 + ["pos:e2e:123:0:43"]
    assert [record["event_id"] for record in canonical(broker, "traffic")] == [
        "traffic:367:door-1:2017-09-19T22:45:00.000Z"
    ]
    letters = dead_letter_headers(broker)
    assert Counter(letter["reason"] for letter in letters) == Counter([*bad, "not_json"])
    key = load_digest_key(broker.home)
    assert {letter["sha256"] for letter in letters} == {
        hmac_digest(key, value or b"") for value in (*bad.values(), None)
    }
    assert {message.key() for message in committed_messages(broker, "dead-letters")} == {
        b"any key [redacted]"
    }


def test_killed_normaliser_neither_loses_nor_repeats_a_receipt(
    begin: Start, broker: Settings
) -> None:
    before = Counter(record["event_id"] for record in canonical(broker, "sales"))
    replayed = json.loads(replay(begin, *MONTH, "--seed", "5", "--disorder", "5m"))
    for fault in FAULTS:
        assert begin("tests.controls.processes.crashing", fault, **CRASHING).wait(600) == KILLED

    normalise_all(begin, broker)

    after = Counter(record["event_id"] for record in canonical(broker, "sales")) - before
    assert (len(after), after.total()) == (replayed["receipts"], replayed["receipts"])


def test_backlog_comes_out_in_event_time_order(begin: Start, broker: Settings) -> None:
    before = len(canonical(broker, "sales"))
    replay(begin, "--from", "2017-03-01", "--to", "2017-03-15", "--seed", "6")

    normalise_all(begin, broker)

    # By partition: what is late is a matter of each partition's own order
    # (docs/adr/005-one-operator-by-partition.md).
    latest: dict[int, str] = defaultdict(str)
    most = 0.0
    for record in canonical(broker, "sales")[before:]:
        partition = partition_number(record["store_id"], broker.partitions)
        latest[partition] = max(latest[partition], record["happened_at"])
        most = max(most, seconds_between(record["happened_at"], latest[partition]))
    assert len(latest) == broker.partitions
    assert most <= broker.alignment_seconds


def seconds_between(earlier: str, later: str) -> float:
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


def replay(begin: Start, *options: str) -> str:
    """The JSON result of a replay that must succeed."""
    process = begin(
        "ops.cli", "replay", "--source", "complete-journey", "--no-backfill", "--json", *options
    )
    out, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    return out


def test_replay_that_goes_on_sends_nothing_that_is_acknowledged(
    begin: Start, broker: Settings
) -> None:
    options = ("--stores", "367", "--to", "2017-03-01", "--duplicates", "0.1")
    first = replay(begin, *options)
    sent = len(committed_messages(broker, "posTransactionTopic"))

    assert replay(begin, *options, "--resume") == first
    assert len(committed_messages(broker, "posTransactionTopic")) == sent
    assert (
        json.loads(first)["receipts"]
        == extent(ReplayScope(end=date(2017, 3, 1), stores=("367",))).receipts
    )


def test_dead_letter_is_listed_shown_corrected_and_sent_again(
    begin: Start, broker: Settings, tmp_path: Path
) -> None:
    producer = connected_producer(broker)
    producer.produce("posTransactionTopic", encoded(pos(operation_id="fixme", kind="gift")))
    assert producer.flush(30) == 0
    normalise_all(begin, broker)
    [letter] = [one for one in listed(begin, "--reason", "out_of_range") if "fixme" in one["value"]]
    fixed = tmp_path / "fixed.json"
    fixed.write_bytes(encoded(pos(operation_id="fixme")))

    assert cli(begin, "show", letter["id"])["field"] == letter["field"] == "/kind"
    assert len(cli(begin, "replay", letter["id"])["replayed"]) == 1
    assert len(cli(begin, "replay", letter["id"], "--fix", str(fixed))["replayed"]) == 1
    normalise_all(begin, broker)

    attempts = [
        one["attempts"]
        for one in listed(begin, "--reason", "out_of_range")
        if "fixme" in one["value"]
    ]
    assert sorted(attempts) == [1, 2]
    assert [
        one["event_id"] for one in canonical(broker, "sales") if one["store_id"] == "fixme"
    ] == ["pos:fixme:123:0:42"]


def test_all_letters_of_a_reason_are_sent_again_at_once(begin: Start, broker: Settings) -> None:
    producer = connected_producer(broker)
    for number in (1, 2):
        bad = pos(operation_id="at-once", transaction_id=number, replaces="yes")
        producer.produce("posTransactionTopic", encoded(bad))
    assert producer.flush(30) == 0
    normalise_all(begin, broker)
    known = {letter["id"] for letter in listed(begin, "--reason", "wrong_type")}

    replayed = cli(begin, "replay", "--reason", "wrong_type")["replayed"]

    assert {letter["id"] for letter in replayed} == known
    assert len(known) >= 2


def listed(begin: Start, *options: str) -> list[dict[str, Any]]:
    letters: list[dict[str, Any]] = cli(begin, "list", *options)["dead_letters"]
    return letters


def cli(begin: Start, *arguments: str) -> dict[str, Any]:
    process = begin("ops.cli", "dead-letters", *arguments, "--json")
    out, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    answer: dict[str, Any] = json.loads(out)
    return answer
