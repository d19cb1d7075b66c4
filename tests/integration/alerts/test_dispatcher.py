"""The dispatcher on the real broker: a receiver that fails half of the calls and half of the
answers, people who silence, and a process that is killed at every moment."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from runtime.processor import moments
from tally.alerts.delivery.controls import AlertChannel, Silence
from tally.alerts.delivery.records import DeliveryDecision, WebhookMessage
from tally.alerts.message import Alert
from tally.settings import Settings
from tests.integration.alerts.town import EPISODES, Receiver, Told, Town, episode, new_town
from tests.integration.ingest.conftest import KILLED, starter, stop, wait_until, wait_until_ready
from tests.unit.alerts.deliveries import messages, of_kind
from tests.unit.alerts.receivers import receiver

DISPATCHING = "tests.integration.alerts.dispatching"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
FAR = 10**15


def secrets_file(folder: Path) -> Path:
    file = folder / "webhook-secrets.json"
    file.write_text(json.dumps({"tablet": SECRET}), "utf-8")
    file.chmod(0o600)
    return file


def channel(port: int) -> AlertChannel:
    return AlertChannel(
        channel_id="floor-tablet",
        url=f"http://127.0.0.1:{port}/alerts",
        secrets=("tablet",),
        max_age=10**9,
        most_a_minute=10**6,
    )


def silence(number: int, is_over: bool = False) -> Silence:
    return Silence(silence_id=f"s{number}", starts=0, ends=0 if is_over else FAR)


class Played:
    """What was told, what became of it, and what the receiver has."""

    def __init__(self, town: Town, at: Receiver) -> None:
        self.alerts, self.at = [*town.alerts], at
        kept = town.kept()
        self.decisions = of_kind(DeliveryDecision, kept)
        self.messages = of_kind(WebhookMessage, kept)
        self.effects = at.effects()

    def states(self, alert_id: str) -> list[str]:
        """What the receiver was told of an alert."""
        return [one.state for one in self.effects if one.alert_id == alert_id]


def is_decided(town: Town) -> bool:
    """Whether every alert was decided about, and what is open is held no more."""
    decisions = of_kind(DeliveryDecision, town.kept())
    decided = {Told(one.alert.alert_id, one.alert.state) for one in decisions}
    sent = {one.alert.alert_id for one in decisions if one.verdict == "send"}
    told = {Told(one.alert_id, one.state) for one in town.alerts}
    return decided == told and open_raises(town.alerts) <= sent


def is_settled(town: Town) -> bool:
    """Whether every message has come to an end."""
    return not any(one.outcome == "waiting" for one in messages(town.kept()))


def open_raises(alerts: Sequence[Alert]) -> set[str]:
    """The raises that have neither ended nor been taken back."""
    raised = {one.alert_id for one in alerts if one.edge == "raise"}
    over = {one.of for one in alerts if one.of}
    return raised - over - {one.alert_id for one in alerts if one.state == "retracted"}


@pytest.fixture(scope="module")
def played(
    kafka: str, settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Played]:
    """Episodes told piece by piece while processes are killed, one at each moment."""
    variables = {
        "TALLY_KAFKA": settings.kafka,
        "TALLY_KEYSPACE": "test_dispatcher",
        "TALLY_WEBHOOK_NETWORKS": "127.0.0.0/8",
        "TALLY_WEBHOOK_SECRETS": str(secrets_file(tmp_path_factory.mktemp("secrets"))),
    }
    random = Random(13)
    at = Receiver(Random(7))
    told = [[*episode(number, random)] for number in range(EPISODES)]
    with (
        new_town(settings) as town,
        receiver(at.react) as (port, _),
        starter(variables) as start,
    ):
        # Only of its rule the channel hears of anything.
        town.apply("floor-tablet")
        town.settle(channel(port))
        with town.clock():
            for number, name in enumerate(moments.NAMES):
                _tell_some(town, told, random)
                town.settle(silence(number // 2, is_over=bool(number % 2)))
                # Some transactions first, so that there are calls under way.
                nth = 1 if name == moments.AFTER_POLL else 4
                killed = start(DISPATCHING, town.prefix, town.rules, f"{name}:{nth}")
                _tell_some(town, told, random)
                assert killed.wait(120) == KILLED
            # Then two at once: the second takes partitions of the first, with calls under way.
            pair = []
            for slot in ("0", "1"):
                pair.append(start(DISPATCHING, town.prefix, town.rules, TALLY_DISPATCHER_SLOT=slot))
                _tell_some(town, told, random)
                wait_until_ready(pair[-1])
            while any(told):
                _tell_some(town, told, random)
            wait_until(lambda: is_decided(town), 120)
            # Without it the last of a lane may be called for until its time is over, days later.
            at.is_well = True
            wait_until(lambda: is_settled(town), 120)
            assert [stop(one) for one in pair] == [0, 0]
        yield Played(town, at)


def _tell_some(town: Town, told: list[list[Alert]], random: Random) -> None:
    """The next state of a third of the episodes."""
    chosen = [one for one in told if one and random.random() < 0.35]
    town.tell([one.pop(0) for one in chosen])


def test_each_state_that_is_to_be_told_is_told(played: Played) -> None:
    sent = [one for one in played.decisions if one.verdict == "send" and one.message]
    missing = [
        Told(one.alert.alert_id, one.alert.state)
        for one in sent
        if Told(one.alert.alert_id, one.alert.state) not in played.effects
    ]

    assert len(sent) > EPISODES
    assert missing == []


def test_all_attempts_of_a_message_have_one_key_and_the_same_bytes(played: Played) -> None:
    assert {key for key, bodies in played.at.bodies.items() if len(bodies) > 1} == set()
    assert sum(len(stamps) > 1 for stamps in played.at.stamps.values()) > 5


def test_states_come_in_their_order_and_an_end_after_its_raise(played: Played) -> None:
    order = [one.alert_id for one in played.effects]
    for alert_id in {*order}:
        said = [one.state for one in played.alerts if one.alert_id == alert_id]
        mine = played.states(alert_id)
        assert mine == [state for state in said if state in mine]
        [of] = {one.of for one in played.alerts if one.alert_id == alert_id}
        assert of is None or of in order[: order.index(alert_id)]


def test_a_retraction_reaches_whoever_may_have_the_raise_and_nobody_else(played: Played) -> None:
    retracted = {one.alert_id for one in played.alerts if one.state == "retracted"}
    told = {one.alert_id for one in played.effects}

    assert retracted & told
    for alert_id in retracted:
        states = played.states(alert_id)
        assert states[-1:] == (["retracted"] if alert_id in told else [])
        assert states != ["retracted"]


def test_silences_have_held_some_and_the_held_went_out_afterwards(played: Played) -> None:
    verdicts = {(one.verdict, one.why) for one in played.decisions}

    assert ("send", "released") in verdicts
    assert [one for one in open_raises(played.alerts) if not played.states(one)] == []


def test_every_attempt_that_was_made_is_in_the_state(played: Played) -> None:
    attempts = {one.message_id: one.attempts for one in played.messages}

    assert {
        key: (len(stamps), attempts[key])
        for key, stamps in played.at.stamps.items()
        if len(stamps) > attempts[key]
    } == {}
