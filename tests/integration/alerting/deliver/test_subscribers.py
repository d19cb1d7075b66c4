"""What turns an alert reaches whoever subscribes: the topic, the stream and a webhook each have it
provisional, confirmed and taken back, with the shipped evaluator, dispatcher and API between."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from alerting.alert.ids import window_text
from alerting.deliver.state.controls import AlertChannel, write_controls
from tests.integration.alerting.deliver.killing import secrets_file
from tests.integration.alerting.evaluate import test_evaluator as live
from tests.integration.alerting.evaluate.quarters import Quarters
from tests.integration.ingest.conftest import Start, stop, wait_until
from tests.integration.serving.test_process import answers, free_port
from tests.support.alerts.alerts import plain
from tests.support.clients.sse import EventSource
from tests.unit.alerting.webhooks.receivers import Got, receiver, status

# The quarter hours are those of the evaluator's own tests.
night = live.night
STORE, RULE = "367", "busy"
# Edge, state, and the quarter hour by its number, of two episodes, each in its order. The second is
# too many by the speed layer alone; of the first a receipt is taken back after a generation had it.
FIRST = [
    ("raise", "provisional", 0),
    ("clear", "provisional", 1),
    ("raise", "confirmed", 0),
    ("clear", "confirmed", 1),
    ("raise", "retracted", 0),
    ("clear", "retracted", 1),
]
SECOND = [("raise", "provisional", 3), ("raise", "retracted", 3)]
Message = dict[str, Any]


class Subscribers:
    """What each of three has of one rule in one store, the messages as they came to him."""

    def __init__(
        self, night: Quarters, events: Iterator[tuple[str, Any]], calls: list[Got]
    ) -> None:
        self._night, self._events, self._calls = night, events, calls
        self._streamed: list[Message] = []

    def told(self) -> list[list[Message]]:
        """The messages of the topic, of the stream, and of the webhook, each key once."""
        by_key = {one.headers["webhook-id"]: json.loads(one.body) for one in self._calls}
        topic = _ours(plain(one) for one in live.told(self._night))
        return [topic, self._streamed, _ours(one["data"] for one in by_key.values())]

    def wait_for(self, count: int) -> None:
        """Return when each of them has so many messages."""
        while len(self._streamed) < count:
            name, content = next(self._events)
            self._streamed += _ours([content]) if name == "alert" else []
        wait_until(lambda: {len(one) for one in self.told()} == {count}, live.MAX_SECONDS)

    def states(self, told: Iterable[Message], *windows: int) -> list[tuple[str, str, int]]:
        """Edge, state and quarter hour of the messages of these quarter hours."""
        starts = {window_text(self._night.window(number)): number for number in windows}
        return [
            (one["edge"], one["state"], starts[one["window"]["start"]])
            for one in told
            if one["window"]["start"] in starts
        ]


def _ours(told: Iterable[Message]) -> list[Message]:
    return [one for one in told if (one["store_id"], one["rule_id"]) == (STORE, RULE)]


def test_what_a_restatement_turns_is_told_by_topic_stream_and_webhook(
    begin: Start, night: Quarters, tmp_path: Path
) -> None:
    address = f"127.0.0.1:{free_port()}"
    subscribed = EventSource(f"http://{address}/v1/alerts/stream", {"store": STORE})
    with receiver(status(204)) as (port, calls):
        others = [begin("web", TALLY_API=address), _dispatcher(begin, night, port, tmp_path)]
        answers(f"http://{address}/readyz", 200)
        with live.running(begin, night), subscribed.connected() as events:
            three = Subscribers(night, events, calls)
            for number in range(4):
                night.sell(number)
                night.tick(number + 1)
            three.wait_for(3)
            # One that covers all: what the speed layer alone had is taken back.
            night.rebuild(4)
            night.tick(4)
            three.wait_for(6)
            # Of a receipt that had come twice with other contents, the later one counts no more.
            night.batch = {**night.batch, STORE: (3, *night.batch[STORE][1:])}
            night.rebuild(4)
            night.tick(4)
            three.wait_for(8)
        assert [stop(one) for one in others] == [0, 0]

    topic, stream, webhook = three.told()
    for one in (topic, stream, webhook):
        assert (three.states(one, 0, 1), three.states(one, 3)) == (FIRST, SECOND)
    # Each has the very messages: not only as many.
    assert stream == topic
    assert sorted(webhook, key=_place) == sorted(topic, key=_place)


def _place(told: Message) -> tuple[str, str]:
    return told["alert_id"], told["state"]


def _dispatcher(begin: Start, night: Quarters, port: int, folder: Path) -> Any:
    """The shipped one, which calls the receiver."""
    url = f"http://127.0.0.1:{port}/alerts"
    tablet = AlertChannel(
        channel_id="floor-tablet", url=url, secrets=("tablet",), rules=(RULE,), max_age=10**9
    )
    write_controls(night.settings, [tablet])
    return begin(
        "alerting.deliver",
        TALLY_WEBHOOK_NETWORKS="127.0.0.0/8",
        TALLY_WEBHOOK_SECRETS=str(secrets_file(folder)),
    )
