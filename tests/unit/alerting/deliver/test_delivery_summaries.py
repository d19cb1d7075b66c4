"""One message for many alerts of a channel, region and rule: too many in a minute, or too old."""

import json
from zoneinfo import ZoneInfo

from alerting.deliver.engine import DeliveryEngine
from alerting.deliver.overviews import WAIT
from alerting.deliver.state.records import MAX_BYTES, WebhookMessage
from alerting.deliver.state.routing import DeliveryRules, StoreFacts
from runtime.outbound.engine import TickTime
from tests.unit.alerting.deliver.deliveries import (
    HOUR,
    NOON,
    SECOND,
    Town,
    alert,
    channel,
    decisions,
    engine_with,
    later,
    messages,
)


class Engines:
    """The partitions of one process, with stores of one region."""

    def __init__(self, count: int) -> None:
        self.engines = {
            number: DeliveryEngine(
                DeliveryRules(),
                Town(),
                number,
                lambda: [engine.memory for engine in self.engines.values()],
            )
            for number in range(count)
        }
        for engine in self.engines.values():
            engine.apply_control(channel())
        self.pass_ticks(1)

    def pass_ticks(self, count: int) -> list[WebhookMessage]:
        """The messages that so many ticks bring about, partition by partition."""
        found = []
        for _ in range(count):
            for engine in self.engines.values():
                time = engine.memory.time
                tick = TickTime(n=time.n + 1, at=(time.at or NOON) + 5 * SECOND)
                found += messages(engine.advance_time(tick))
        return found


class TwoRegions(Town):
    """Stores of two regions."""

    def store(self, store_id: str) -> StoreFacts:
        return StoreFacts(ZoneInfo("UTC"), ("north",) if store_id == "north" else ("west",))


def test_the_cap_of_a_minute_is_of_all_partitions_and_each_tells_its_own_storm() -> None:
    town = Engines(2)
    for engine in town.engines.values():
        engine.apply_control(channel(most_a_minute=3))
    found = [
        decisions(town.engines[number % 2].process_alert(alert(number)))[0] for number in range(8)
    ]
    assert found == [("send", "")] * 3 + [("suppressed", "storm")] * 5

    storms = [json.loads(one.body)["data"] for one in town.pass_ticks(13) if one.kind == "summary"]

    assert [(one["alerts"], one["why"], one["stores"]) for one in storms] == [
        (2, "storm", ["367"]),
        (3, "storm", ["367"]),
    ]


def test_a_critical_alert_goes_out_however_many_others_have_filled_the_minute() -> None:
    engine = engine_with(channel(most_a_minute=30))
    for number in range(40):
        engine.process_alert(alert(number, severity="info", store_id=f"{number}"))

    found = decisions(engine.process_alert(alert(99, severity="critical")))

    assert found == [("send", "")]
    [storm] = messages(later(engine, WAIT))
    data = json.loads(storm.body)["data"]
    assert (data["alerts"], data["stores"]) == (10, [f"{number}" for number in range(30, 40)])


def test_a_summary_shows_the_most_severe_and_names_the_stores_of_all() -> None:
    engine = engine_with(channel(most_a_minute=1))
    severities = ("info", "warning", "critical")
    for number in range(300):
        engine.process_alert(
            alert(number, severity=severities[number % 3], store_id=f"store-{number}")
        )

    [storm] = messages(later(engine, WAIT))

    data = json.loads(storm.body)["data"]
    shown = [one["severity"] for one in data["most_severe"]]
    assert (data["alerts"], len(data["stores"]), data["more_stores"]) == (297, 297, 0)
    assert (set(shown), len(shown) > 20) == ({"critical"}, True)
    assert len(storm.body.encode()) <= MAX_BYTES


def test_two_groups_of_one_pass_have_two_ids() -> None:
    engine = engine_with()
    old = NOON - 5 * HOUR
    first = [alert(number, at=old) for number in range(3)]
    second = [alert(number, at=old) for number in range(3, 23)]
    for early in first:
        engine.process_alert(early)
    [one] = messages(later(engine, WAIT))
    for late in second:
        engine.process_alert(late)
    [other] = messages(later(engine, WAIT))

    counts = [json.loads(message.body)["data"]["alerts"] for message in (one, other)]
    assert counts == [3, 20]
    assert one.message_id != other.message_id


def test_alerts_of_two_rules_and_two_regions_are_three_groups() -> None:
    engine = engine_with(channel(most_a_minute=1), town=TwoRegions())
    for number in range(1, 10):
        rule = "another-rule" if number % 3 == 0 else "queue-too-long"
        engine.process_alert(
            alert(number, rule_id=rule, store_id="north" if number % 3 == 1 else "367")
        )

    found = [json.loads(one.body)["data"] for one in messages(later(engine, WAIT))]

    assert sorted((one["region"], one["rule_id"], one["alerts"]) for one in found) == [
        ("north", "queue-too-long", 2),
        ("west", "another-rule", 3),
        ("west", "queue-too-long", 3),
    ]
