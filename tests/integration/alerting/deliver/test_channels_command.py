"""`tally channels` on the real broker: what is set is in every partition, and a message is called
for again."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from msgspec import structs
from typer.testing import CliRunner, Result

from alerting.alert.resolution import TOPIC as RESOLUTIONS
from alerting.alert.resolution import AlertResolution
from alerting.deliver.state.controls import (
    TOPIC,
    Acknowledgement,
    AlertControl,
    Redelivery,
    Silence,
    Snooze,
    decode_control,
)
from alerting.deliver.state.records import StoredDelivery, WebhookMessage, encode_record, record_key
from ops.channels import DELIVERIES, read_alert_controls
from ops.cli.app import build_app
from runtime.kafka.reader import read_to_end
from tally.config.settings import Settings
from tally.errors import TallyError
from tally.events.identity import partition_number
from tests.support.alerts.alert_api import alert_api
from tests.support.clients.producers import connected_producer
from tests.unit.alerting.deliver.deliveries import NOON, alert, channel, engine_with, messages


@pytest.fixture
def name(kafka: str) -> str:
    """Id of a channel of the test's own."""
    return f"c{uuid4().hex}"


def tally(settings: Settings, *words: str, group: str = "channels", **more: str) -> Result:
    environment = {"TALLY_KAFKA": settings.kafka, "TALLY_PARTITIONS": f"{settings.partitions}"}
    return CliRunner().invoke(build_app(), [group, *words], env={**environment, **more})


def told(settings: Settings, *words: str, group: str = "channels") -> Any:
    result = tally(settings, *words, "--json", group=group)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def controls(settings: Settings) -> list[tuple[int, AlertControl]]:
    """What lies in the topic, with its partition, by that."""
    found = [
        (message.partition() or 0, decode_control(bytes(message.value() or b"")))
        for message in read_to_end(settings, [TOPIC])
    ]
    return sorted(found, key=lambda one: one[0])


def keep(settings: Settings, channel_id: str, **changed: Any) -> WebhookMessage:
    """A message in the state of a dispatcher."""
    [made] = messages(engine_with().process_alert(alert()))
    message = structs.replace(made, channel=channel_id, **changed)
    store(settings, message)
    return message


def store(settings: Settings, *kept: StoredDelivery) -> None:
    """Records in the state of a dispatcher."""
    producer = connected_producer(settings)
    for one in kept:
        producer.produce(DELIVERIES, encode_record(one), record_key(one), partition=0)
    assert producer.flush(30) == 0


def test_a_channel_that_is_set_is_in_every_partition(
    settings: Settings, name: str, tmp_path: Path
) -> None:
    file = tmp_path / "channel.json"
    for url in ("https://old.example/", "https://new.example/"):
        file.write_text(json.dumps({"channel_id": name, "url": url, "secrets": ["a"]}), "utf-8")
        assert told(settings, "set", str(file)) == {"channel": name}

    [shown] = [one for one in told(settings, "list")["channels"] if one["channel_id"] == name]
    places = [place for place, one in controls(settings) if one.key == f"channel|{name}"]

    assert shown["url"] == "https://new.example/"
    assert sorted(places) == sorted([*range(settings.partitions)] * 2)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"channel_id": "a|b"}', '{"is": "silence"}'])
def test_a_file_that_is_no_channel_is_refused(
    settings: Settings, kafka: str, tmp_path: Path, content: str
) -> None:
    file = tmp_path / "channel.json"
    file.write_text(content, "utf-8")
    before = controls(settings)

    result = tally(settings, "set", str(file))

    assert isinstance(result.exception, TallyError)
    assert controls(settings) == before


def test_a_message_that_was_given_up_is_shown_and_called_for_again(
    settings: Settings, name: str
) -> None:
    dead = keep(settings, name, outcome="dead", cause="[red]no\nanswer", due_at=NOON)
    keep(settings, name, message_id="alrt_2_confirmed", outcome="waiting")

    found = told(settings, "deliveries", name, "--dead")["deliveries"]
    table = tally(settings, "deliveries", name).stdout
    again = told(settings, "redeliver", name, dead.message_id)

    assert [one["message_id"] for one in found] == [dead.message_id]
    assert "2 messages" in table
    assert again == {"channel": name, "redelivered": dead.message_id}
    asked = [one for _, one in controls(settings) if isinstance(one, Redelivery)]
    assert {one.message_id for one in asked if one.channel_id == name} == {dead.message_id}
    for wrong in ("alrt_2_confirmed", "alrt_3_confirmed"):
        assert isinstance(tally(settings, "redeliver", name, wrong).exception, TallyError)


def test_all_messages_that_were_given_up_are_called_for_again_at_once(
    settings: Settings, name: str
) -> None:
    for number in range(5):
        keep(settings, name, message_id=f"alrt_{number}_confirmed", outcome="dead")
    keep(settings, name, message_id="alrt_6_confirmed", outcome="waiting")

    found = told(settings, "redeliver", "--dead", "--channel", name, group="alerts")["redelivered"]

    expected = {f"alrt_{number}_confirmed" for number in range(5)}
    asked = [one for _, one in controls(settings) if isinstance(one, Redelivery)]
    assert {message for _, message in found} == expected
    assert {one.message_id for one in asked if one.channel_id == name} == expected
    assert tally(settings, "redeliver", group="alerts").exit_code == 2


def test_a_silence_begins_now_and_can_be_ended(settings: Settings, name: str) -> None:
    for minutes in ("90", "0"):
        result = tally(settings, "silence", name, "--minutes", minutes, "--store", "367, 406")
        assert result.exit_code == 0, result.output

    # In each partition the same two, in their order.
    silences = [one for place, one in controls(settings) if not place and isinstance(one, Silence)]
    first, last = [one for one in silences if one.silence_id == name]

    assert (first.ends - first.starts, last.ends - last.starts) == (90 * 60_000, 0)
    assert (last.stores, last.rules) == (("367", "406"), "all")
    assert tally(settings, "silence", "Not A Name").exit_code == 2


def test_silences_that_are_not_over_are_listed_without_what_steers_a_terminal(
    settings: Settings, name: str
) -> None:
    over = f"{name[:30]}-over"
    told_why = ("--maintenance", "--by", "anna", "--comment", "\x1b[31mred")
    assert tally(settings, "silence", name, *told_why).exit_code == 0
    assert tally(settings, "silence", over, "--minutes", "0").exit_code == 0

    shown = tally(settings, "silences").stdout
    found = {one["silence_id"]: one for one in told(settings, "silences")["silences"]}

    assert (found[name]["kind"], found[name]["by"]) == ("maintenance", "anna")
    assert over not in found
    assert f"{name}  maintenance  until 2" in shown and "\x1b" not in shown


def test_an_alert_is_put_off_and_taken_on_in_the_partition_of_its_store(
    settings: Settings, kafka: str
) -> None:
    one = alert(int(uuid4().hex[:8], 16), store_id="406")
    place = partition_number("406", settings.partitions)
    with alert_api([one]) as address:
        for words in (("snooze", one.alert_id, "--minutes", "90"), ("ack", one.alert_id)):
            by = (*words, "--by", "anna")
            result = tally(settings, *by, group="alerts", TALLY_API=address)
            assert result.exit_code == 0, result.output
        unknown = tally(settings, "ack", "nobody", "--by", "a", group="alerts", TALLY_API=address)

    found = [
        (at, control)
        for at, control in controls(settings)
        if isinstance(control, Snooze | Acknowledgement) and control.alert_id == one.alert_id
    ]
    assert [(at, control.store_id, control.by) for at, control in found] == [
        (place, "406", "anna")
    ] * 2
    noted = [control.key for control in read_alert_controls(settings, one.alert_id)]
    assert noted == [f"ack|{one.alert_id}", f"snooze|{one.alert_id}"]
    assert isinstance(unknown.exception, TallyError)


def test_an_alert_is_resolved_in_the_partition_of_its_store(settings: Settings, kafka: str) -> None:
    one = alert(int(uuid4().hex[:8], 16), store_id="406")
    with alert_api([one]) as address:
        words = ("resolve", one.alert_id, "--because", "repaired", "--by", "anna")
        result = tally(settings, *words, group="alerts", TALLY_API=address)
        assert result.exit_code == 0, result.output

    messages = read_to_end(settings, [RESOLUTIONS])
    found = [
        (message.partition(), AlertResolution.decode(bytes(message.value() or b"")))
        for message in messages
        if message.key() == one.alert_id.encode()
    ]
    [(place, resolution)] = found
    assert place == partition_number("406", settings.partitions)
    assert (resolution.rule_id, resolution.store_id) == (one.rule_id, "406")
    assert (resolution.because, resolution.by) == ("repaired", "anna")


def test_what_was_decided_about_an_alert_is_shown_by_channel_with_what_came_of_it(
    settings: Settings, kafka: str
) -> None:
    raised = alert(int(uuid4().hex[:8], 16))
    engine = engine_with(channel("floor"), channel("night", least_severity="critical"))
    kept = [
        *engine.process_alert(raised),
        *engine.process_alert(structs.replace(raised, state="confirmed")),
    ]
    store(settings, *kept)

    found = told(settings, "decisions", raised.alert_id, group="alerts")["decisions"]
    shown = tally(settings, "decisions", raised.alert_id, group="alerts").stdout.splitlines()

    states = [(one["decision"]["channel"], one["decision"]["alert"]["state"]) for one in found]
    assert states == [("floor", "provisional"), ("floor", "confirmed")]
    assert {one["message"]["outcome"] for one in found} == {"waiting"}
    assert shown[0] == "floor  raise provisional  send: waiting"
