"""The topics that are nobody's source: what is written there is what schemas/topics says."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, get_args

import msgspec
import pytest
from jsonschema import Draft202012Validator

from alerting.alert.resolution import AlertResolution
from alerting.deliver.state.clock_times import QuietHours
from alerting.deliver.state.controls import (
    Acknowledgement,
    AlertControl,
    Escalation,
    Redelivery,
    Silence,
    Snooze,
    decode_control,
)
from alerting.deliver.state.records import GoneAddress, StoredDelivery, encode_record, record_key
from alerting.rules.versions import RuleChangeNumber, StoredRule
from batch_layer.views.publish.announcements import Announcements, Restatement
from ingest.normaliser.normalise import Normaliser
from runtime.processor.step import Input
from runtime.registry.sources import SALES
from schemas.loader import FOLDER, dead_letter_reasons, record_schema, sources, topics
from speed_layer.state import sink
from speed_layer.state.sink import ViewUpdates
from tally.alerts.message import Alert, encode_alert
from tally.alerts.tick import NO_TICK, SpeedEpoch, Tick
from tally.config.settings import Settings
from tests.support.alerts.alerts import told
from tests.support.clients.full_producer import FullProducer
from tests.support.struct_schema import value_schema
from tests.unit.alerting.deliver.deliveries import alert, channel, engine_with
from tests.unit.alerting.rules.rules import GOOD, rule
from tests.unit.alerting.rules.test_resolution import RESOLUTION
from tests.unit.ingest.messages import ARRIVED, RULES
from tests.unit.schemas.test_events import fields_of

OF_SOURCES = {name for one in sources().values() for name in (one.name, one.raw_topic)}
DESCRIBED = sorted(
    name for name, told in topics().items() if name not in OF_SOURCES and told["kind"] != "clock"
)
BY_TOPIC = pytest.mark.parametrize("topic", DESCRIBED)
START = "2026-03-02T10:00:00.000Z"
CONTROLS = (
    channel(
        quiet=(QuietHours("mon-fri", "22:00", "06:00"),),
        leaves_out=("confirmed",),
        escalate=Escalation(after=900, channel="boss"),
    ),
    Silence(silence_id="lunch", starts=1, ends=2, rules=("a",), stores=("367",)),
    Snooze(alert_id="0" * 64, store_id="367", until=1, by="anna"),
    Acknowledgement(alert_id="0" * 64, store_id="367", at=1, by="anna"),
    Redelivery(channel_id="floor", message_id="alrt_1_confirmed", asked_at=1),
)
UNCOUNTED = {
    "partition": 3,
    "offset": 7,
    "store_id": "367",
    "event_id": "pos:367:ann@example.org:0:" + "7" * 5_000,
    "fate": "conflict",
    "committed_at": datetime(2026, 11, 22, tzinfo=UTC),
    "value": "x" * 3_000_000,
}


def text_of(content: bytes | str | None) -> str | None:
    return content.decode("utf-8", "backslashreplace") if isinstance(content, bytes) else content


def as_record(
    topic: str, key: bytes | str | None, value: bytes, headers: Mapping[str, bytes]
) -> dict[str, Any]:
    """The record as its schema speaks of it: values in JSON but those of dead letters."""
    told = text_of(value) if topic == "dead-letters" else json.loads(value)
    named = {name: text_of(content) for name, content in headers.items()}
    return {"key": text_of(key), "value": told, "headers": named}


def wrong_in(topic: str, record: Mapping[str, Any]) -> list[str]:
    """What of the record is not as its schema says."""
    return [
        error.message for error in Draft202012Validator(record_schema(topic)).iter_errors(record)
    ]


def sent_by(producer: FullProducer) -> list[tuple[str, dict[str, Any]]]:
    """Topic and record of everything that was given to the producer."""
    return [
        (topic, as_record(topic, key, value, headers))
        for topic, key, _, value, headers in producer.sent
    ]


def test_each_topic_that_is_nobody_s_source_has_a_schema() -> None:
    assert [
        file.name.removesuffix(".schema.json") for file in sorted((FOLDER / "topics").iterdir())
    ] == DESCRIBED


@BY_TOPIC
def test_each_field_of_a_record_has_a_meaning_and_each_number_a_unit(topic: str) -> None:
    schema = record_schema(topic)
    Draft202012Validator.check_schema(schema)
    fields = [
        (name, told) for name, told in fields_of(schema) if name not in ("key", "value", "headers")
    ]

    assert [name for name, told in fields if not told.get("x-meaning")] == []
    assert [
        name for name, told in fields if told["type"] == "integer" and "x-unit" not in told
    ] == []


@pytest.mark.parametrize("message", [b"{no json, \xff ann@example.org", b"[" * 3_000_000, None])
def test_dead_letter_of_the_normaliser_is_as_its_schema_says(message: bytes | None) -> None:
    given = Input("raw-traffic", 2, 9, int(ARRIVED.timestamp() * 1000), b"\xff" * 5_000, message)
    (letter,) = Normaliser(RULES, 4, {"raw-traffic": "traffic"}).process(given)

    record = as_record(letter.topic, letter.key, letter.value or b"", dict(letter.headers))

    assert (letter.topic, wrong_in("dead-letters", record)) == ("dead-letters", [])
    assert len(letter.key or b"") == 1_000 and len(letter.value or b"") <= 1_000_000
    assert record["headers"]["reason"] in dead_letter_reasons()


@pytest.mark.parametrize(
    "more", [{}, {"fate": "unreadable", "store_id": None, "event_id": None, "value": None}]
)
def test_dead_letter_of_a_rebuild_is_as_its_schema_says(more: dict[str, Any]) -> None:
    producer = FullProducer()
    rebuild: Any = producer

    Announcements(rebuild, 4, b"key").send_dead_letters(SALES, [{**UNCOUNTED, **more}])

    [(topic, record)] = sent_by(producer)
    assert (topic, wrong_in(topic, record)) == ("dead-letters", [])
    assert record["headers"]["reason"] in dead_letter_reasons()


def test_restatement_is_as_its_schema_says() -> None:
    producer = FullProducer()
    rebuild: Any = producer

    Announcements(rebuild, 4, b"key").send_restatements(
        [Restatement.for_window("sales", "367", START, 3, 4)]
    )

    [(topic, record)] = sent_by(producer)
    assert (topic, wrong_in(topic, record)) == ("restatements", [])


def test_view_update_is_as_its_schema_says(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = FullProducer()
    monkeypatch.setattr(sink, "kafka_producer", lambda *_: producer)

    ViewUpdates(Settings()).announce("sales", "367", 1772445600000, events=2, epoch=1)

    [(topic, record)] = sent_by(producer)
    assert (topic, wrong_in(topic, record)) == ("view-updates", [])
    assert record["value"]["window_start"] == START


def test_tick_is_as_its_schema_says() -> None:
    tick = Tick(
        n=7,
        at=9,
        through={"sales": 8},
        epoch={"sales": SpeedEpoch(2)},
        flips={"sales": 0, "traffic": 3},
        rules_until=4,
    )

    assert wrong_in("ticks", as_record("ticks", "3", tick.value, {})) == []
    assert wrong_in("ticks", as_record("ticks", "0", NO_TICK.value, {})) == []


@pytest.mark.parametrize("kind", GOOD)
@pytest.mark.parametrize(
    "more", [{}, {"revision": 2}, {"retired": True}, {"after": RuleChangeNumber(2, 3)}]
)
def test_version_of_a_rule_is_as_its_schema_says(kind: str, more: dict[str, Any]) -> None:
    stored = StoredRule(rule=rule(kind), version=3, **more)

    record = as_record("alert-rules", stored.key, stored.value, {})

    assert wrong_in("alert-rules", record) == []
    assert record["key"] == f"{record['value']['rule_id']}|3" + "|2" * ("revision" in more)


def test_alert_is_as_its_schema_says_and_the_schema_as_the_struct() -> None:
    one = told(subject="item:" + "7" * 5_000, value=None, reason="late_data", state="retracted")

    record = as_record("alerts", one.store_id, encode_alert(one), {})

    assert wrong_in("alerts", record) == []
    assert wrong_in("alerts", {**record, "value": {**record["value"], "state": "sure"}}) != []
    assert wrong_in("alerts", {**record, "value": {**record["value"], "window": None}}) != []
    meaning = record_schema("alerts")["properties"]["value"]["x-meaning"]
    assert record_schema("alerts")["properties"]["value"] == {
        **value_schema(Alert),
        "x-meaning": meaning,
    }


def test_a_resolution_is_as_its_schema_says_and_the_schema_as_the_struct() -> None:
    topic = "alert-resolutions"
    record = as_record(topic, RESOLUTION.key, RESOLUTION.value, {})

    assert wrong_in(topic, record) == []
    for field, text in (("because", " "), ("store_id", ""), ("alert_id", "7")):
        assert wrong_in(topic, {**record, "value": {**record["value"], field: text}}) != []
    meaning = record_schema(topic)["properties"]["value"]["x-meaning"]
    shape = {**value_schema(AlertResolution), "x-meaning": meaning}
    assert record_schema(topic)["properties"]["value"] == shape


@pytest.mark.parametrize("control", CONTROLS, ids=lambda one: type(one).__name__)
def test_a_control_is_as_its_schema_says(control: AlertControl) -> None:
    value = msgspec.json.encode(control)

    assert wrong_in("alert-controls", as_record("alert-controls", control.key, value, {})) == []
    assert decode_control(value) == control
    more = json.dumps({**json.loads(value), "more": 1}).encode()
    assert wrong_in("alert-controls", as_record("alert-controls", control.key, more, {})) != []


@pytest.mark.parametrize("number", range(8))
def test_a_record_of_deliveries_is_as_its_schema_says(number: int) -> None:
    engine = engine_with()
    gone = GoneAddress(channel="floor", url="https://x.example/", at=1)
    kept = [*engine.process_alert(alert()), *CONTROLS[:4], gone, engine.memory.time][number]

    record = as_record("alert-deliveries", record_key(kept), encode_record(kept) or b"", {})

    assert wrong_in("alert-deliveries", record) == []
    assert {type(one) for one in [kept]} <= {*get_args(StoredDelivery)}


@BY_TOPIC
def test_a_record_that_lacks_a_field_or_has_another_is_found(topic: str) -> None:
    whole = {"key": "367", "value": "", "headers": {}}

    assert wrong_in(topic, {name: whole[name] for name in ("key", "value")}) != []
    assert wrong_in(topic, {**whole, "more": 1}) != []
