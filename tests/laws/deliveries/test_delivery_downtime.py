"""A dispatcher that was down across quiet hours, a silence and `max_age` calls nobody whom the
rules of that moment forbid to call, and loses nothing; a wrong one is found.

The rules are written down here a second time, by what was called and when, without the product's
words for them.
"""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from alerting.deliver.engine import DeliveryEngine
from alerting.deliver.state.clock_times import QuietHours
from alerting.deliver.state.controls import Silence
from alerting.deliver.state.routing import DeliveryRules
from alerting.deliver.step import ALERTS, CONTROLS, Dispatcher
from runtime.outbound.caller import OutboundAnswer
from tally.alerts.message import Alert
from tally.time.instants import parse_instant
from tests.controls.alerts.undated_dispatchers import ALERTS_FIRST, ClockOfBefore, DecidedOnce
from tests.laws.deliveries.dispatch_world import Called, DispatchWorld, Webhook
from tests.unit.alerting.deliver.deliveries import HOUR, MINUTE, NOON, Town, alert, channel, end_of

# In Rome, by whose clock all stores are: 19:00, 22:00 to 06:00, and 20:30 to 21:15.
BEGIN = NOON + 6 * HOUR
QUIET = (NOON + 9 * HOUR, NOON + 17 * HOUR)
SILENCED = (NOON + 7 * HOUR + 30 * MINUTE, NOON + 8 * HOUR + 15 * MINUTE)
END = NOON + 28 * HOUR
MAX_AGE = HOUR
MOMENTS = [BEGIN + number * HOUR + 7 * MINUTE for number in range(13)]
# The process ends, and another one comes so much later.
DOWN_FOR = (25 * MINUTE, 2 * HOUR, 7 * HOUR)
NIGHT = (QuietHours("mon-sun", "22:00", "06:00"),)


class Night(NamedTuple):
    """What was told in a night: all raises, the ends by their raise, and the calls.

    `down`: from when to when there was no dispatcher.
    """

    down: tuple[int, int]
    raised: dict[str, Alert]
    ended: dict[str, int]
    called: list[Called]
    retries: int


class Parts(NamedTuple):
    """What a dispatcher is made of here."""

    step: type[Dispatcher] = Dispatcher
    engine: type[DeliveryEngine] = DeliveryEngine
    reads: tuple[str, ...] = ()


def answer(call: Called) -> OutboundAnswer:
    """What the receiver answers: every third message fails for a while, one way or the other."""
    number = int.from_bytes(call.message.message_id.encode()[-20:]) % 6
    # The first attempts of some stay without an answer, those of others never leave.
    if number == 1 and call.message.attempts < 4:
        return OutboundAnswer(status=503)
    if number == 2 and call.message.attempts < 5:
        return OutboundAnswer(error="nobody there", is_unsent=True)
    return OutboundAnswer(status=204)


def played(down_at: int, down_for: int, parts: Parts = Parts()) -> Night:
    """A night in which the dispatcher is down from one moment on, for so long."""
    webhook = Webhook(answer)
    world = DispatchWorld(
        lambda memories: parts.engine(DeliveryRules(), Town(), 0, memories),
        webhook,
        step=parts.step,
        reads=parts.reads,
    )
    world.write(CONTROLS, channel(quiet=NIGHT, max_age=MAX_AGE // 1_000, most_a_minute=1_000))
    raised: dict[str, Alert] = {}
    ended: dict[str, int] = {}
    process = world.process()
    for number, now in enumerate(range(BEGIN, END, 2 * MINUTE), 1):
        world.tick(number, now)
        if now == SILENCED[0]:
            world.write(CONTROLS, Silence(silence_id="s", starts=SILENCED[0], ends=SILENCED[1]))
        for one in alerts_of(number, now):
            world.write(ALERTS, one)
            if one.edge == "raise":
                raised[one.alert_id] = one
            else:
                ended[one.of or ""] = now
        if down_at <= now < down_at + down_for:
            webhook.forget()
            process = world.process()
            continue
        process.run()
    retries = sum(call.message.attempts > 1 for call in webhook.called)
    return Night((down_at, down_at + down_for), raised, ended, webhook.called, retries)


def alerts_of(number: int, now: int) -> Iterator[Alert]:
    """What the evaluators tell: until 08:00 a raise every ten minutes, of which each third ends."""
    if now >= NOON + 19 * HOUR:
        return
    if number % 5 == 0:
        yield alert(number, at=now, store_id=f"s{number}")
    if number % 15 == 10 and number > 20:
        ends = alert(number - 20, at=now, store_id=f"s{number - 20}")
        yield end_of(ends, 10_000 + number, at=now, store_id=ends.store_id)


def told_by(call: Called) -> list[dict[str, Any]]:
    """The alerts that a call tells of one by one."""
    body = json.loads(call.message.body)
    if call.message.kind in ("alert", "group"):
        data = body["data"]
        return data["alerts"] if call.message.kind == "group" else [data]
    return []


def forbidden(night: Night) -> tuple[list[str], Counter[str]]:
    """The calls that no rule allows, in words; and how often each rule was looked at."""
    found, looked = list[str](), Counter[str]()
    heard: set[str] = set()
    for call in night.called:
        looked[call.message.kind] += 1
        if QUIET[0] <= call.at < QUIET[1]:
            found.append(f"{call.message.message_id} within quiet hours")
        for told in told_by(call):
            looked["alerts"] += 1
            if told["state"] != "retracted" and SILENCED[0] <= call.at < SILENCED[1]:
                found.append(f"{told['alert_id']} within a silence")
            if told["edge"] == "raise" and told["alert_id"] not in heard:
                looked["ages"] += 1
                if call.at - _young_since(told["raised_at"], call.at, night.down) > MAX_AGE:
                    found.append(f"{told['alert_id']} when it was old")
            heard.add(told["alert_id"])
    return found, looked


def _young_since(raised_at: str, called_at: int, down: tuple[int, int]) -> int:
    """Since when an alert's age counts: it was raised, or what held it back was over.

    A hold that nobody has seen the end of is over when somebody is there again.
    """
    raised = round(parse_instant(raised_at, "alert").timestamp() * 1_000)
    seen = raised
    for _, end in (SILENCED, QUIET):
        # Of an alert that nobody took in time nothing was held.
        was_taken = not down[0] <= raised < down[1]
        over = down[1] if down[0] <= end < down[1] and was_taken else end
        if raised < over <= called_at:
            seen = max(seen, over)
    return seen


def lost(night: Night) -> list[str]:
    """Raises of which the receiver was told in no way, though they were open at the end."""
    delivered = [call for call in night.called if answer(call).status == 204]
    one_by_one = {told["alert_id"] for call in delivered for told in told_by(call)}
    summed_up = {
        store
        for call in delivered
        if call.message.kind == "summary"
        for store in json.loads(call.message.body)["data"]["stores"]
    }
    return [
        alert_id
        for alert_id, one in night.raised.items()
        if alert_id not in one_by_one
        and one.store_id not in summed_up
        # What has begun and ended while it was held is in the digest.
        and alert_id not in night.ended
    ]


@pytest.mark.parametrize("down_for", DOWN_FOR)
def test_after_any_downtime_nothing_forbidden_is_called_and_nothing_is_lost(down_for: int) -> None:
    looked: Counter[str] = Counter()
    for moment in MOMENTS:
        night = played(moment, down_for)
        wrong, counts = forbidden(night)
        looked += counts
        looked["retries"] += night.retries
        assert (wrong, lost(night)) == ([], []), f"down at {moment - NOON} for {down_for}"

    print(dict(looked))
    least = {"alert": 300, "group": 13, "ages": 300, "retries": 150}
    least["summary"] = 13 if down_for > MAX_AGE else 0
    assert {name: looked[name] for name, count in least.items() if looked[name] < count} == {}


WRONG: dict[str, Parts] = {
    "clock=before": Parts(ClockOfBefore, DecidedOnce, ALERTS_FIRST),
    "gate=none": Parts(engine=DecidedOnce),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_dispatcher_that_goes_by_an_earlier_moment_is_found(wrong: str) -> None:
    found = [forbidden(played(moment, 2 * HOUR, WRONG[wrong]))[0] for moment in MOMENTS]

    assert any(found)


def test_a_dispatcher_that_loses_an_alert_is_found() -> None:
    night = played(MOMENTS[2], 2 * HOUR)
    others = [call for call in night.called if call.message.kind != "summary"]

    assert (lost(night), lost(night._replace(called=others)) != []) == ([], True)
