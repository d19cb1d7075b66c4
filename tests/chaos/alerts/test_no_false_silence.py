"""A rule of silence over the whole loop: whoever sends is silent to nobody while the normaliser or
the speed layer stands still, and one store that has really stopped is told once."""

import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from runtime.kafka.reader import read_to_end
from schemas import loader
from tally.alerts.message import Alert, decode_alert
from tally.alerts.tick import Tick
from tally.time.instants import format_utc, to_millis
from tally.time.windows import WINDOW, window_start
from tests.support.clients.producers import connected_producer
from tests.support.stack.loop import Loop, running_loop, wait_until
from tests.support.twin.long_ago import taken_at
from tests.unit.ingest.messages import encoded, pos

SILENT = 31782
STORES = (367, 406, 500, SILENT)
# Of the night too, so that no hour of a day is another test.
RULE = "kind: silence\nfamily: sales\nfor: 3\ndelay: 0\n"
COUNTING = ("normaliser", "speed", "master")
# All had come and was counted until then; since then nobody has counted, and one has stopped.
SEEN, BLIND, STOPPED = timedelta(days=2), timedelta(hours=4), timedelta(hours=2)
# Some twenty ticks.
LOOK_SECONDS = 40.0
TOLD_SECONDS = 180


def send(loop: Loop, begin: datetime, end: datetime, ends: Mapping[int, datetime]) -> None:
    """A receipt of each quarter hour of [begin, end) and each store, of some up to an earlier end,
    in the order in which they happened: else they are late."""
    topic = loader.builtin_sources()["sales"].raw_topic
    producer = connected_producer(loop.settings)
    for number in range((end - begin) // WINDOW):
        at = begin + number * WINDOW
        for store in (one for one in STORES if at < ends.get(one, end)):
            receipt = pos(
                operation_id=store,
                transaction_id=int(at.timestamp()),
                happened_at=format_utc(at),
            )
            producer.produce(topic, encoded(receipt), str(store))
    assert producer.flush(60) == 0


def alerts(loop: Loop) -> list[Alert]:
    """Every message of the topic, in its order."""
    return [
        decode_alert(bytes(one.value() or b"")) for one in read_to_end(loop.settings, ["alerts"])
    ]


def ticks(loop: Loop) -> int:
    """How many have been told."""
    return sum(1 for _ in read_to_end(loop.settings, ["ticks"]))


def ticks_until_told(loop: Loop, end: datetime) -> int:
    """How many ticks had said that all until then was read when the only alert was told."""
    [told] = read_to_end(loop.settings, ["alerts"])
    closing = [
        one
        for one in read_to_end(loop.settings, ["ticks"])
        if one.partition() == told.partition()
        and Tick.decode(one.value() or b"").through.get("sales", 0) >= to_millis(end)
    ]
    return sum(one.timestamp()[1] <= told.timestamp()[1] for one in closing)


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Loop]:
    """A loop whose rule of silence has been in force since before the first receipt."""
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "silent.yaml").write_text(f"rule_id: silent\n{RULE}", "utf-8")
    with running_loop(tmp_path / "home", "kafka") as running:
        assert running.run("rules", "apply", str(folder)).returncode == 0
        running.down("kafka")
        long_ago = datetime.now(UTC) - 2 * SEEN
        assert taken_at(running.home / "data" / "kafka" / "alert-rules-0", long_ago)
        running.up(*COUNTING)
        yield running


def test_nobody_is_silent_to_who_has_not_counted_and_one_that_has_stopped_is_told_once(
    loop: Loop,
) -> None:
    now = window_start(datetime.now(UTC)) + WINDOW
    send(loop, now - SEEN, now - BLIND, {})
    loop.catch_up()
    loop.down("normaliser")
    send(loop, now - BLIND, now, {SILENT: now - STOPPED})

    loop.up("evaluator")
    time.sleep(LOOK_SECONDS)
    assert alerts(loop) == []
    loop.down("speed")
    loop.up("normaliser")
    time.sleep(LOOK_SECONDS)
    assert (alerts(loop), ticks(loop) > 0) == ([], True)

    loop.up("speed")
    loop.catch_up()
    wait_until(lambda: len(alerts(loop)) > 0, TOLD_SECONDS, "the one is told")
    time.sleep(LOOK_SECONDS)
    found = [(one.store_id, one.edge, one.state, one.window.start) for one in alerts(loop)]
    # The third quarter hour of nothing.
    third = now - STOPPED + 2 * WINDOW
    assert found == [(str(SILENT), "raise", "provisional", f"{third:%Y-%m-%dT%H:%M:%SZ}")]
    waited = ticks_until_told(loop, third + WINDOW)
    print(f"told at tick {waited} of those behind its third quarter hour")
    assert 1 <= waited <= 2
