"""The store twin: any store and day by itself, and what the way to Kafka does to its messages."""

import json
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from ingest.installation.arrival import Arrival, Rules
from ingest.senders.twin.__main__ import twin_stores
from ingest.senders.twin.people import DayTruth, TwinStore, day_truth, draw_people, write_truth
from ingest.senders.twin.sensors import SensorMessage, make_messages
from ingest.senders.twin.stream import (
    PAST_BATCH_SECONDS,
    SentMessage,
    Transport,
    TwinDays,
    arrivals,
    send,
)
from ingest.sources.registry import load_conversion
from schemas import loader
from tally.config.settings import Settings
from tests.support.twin.faults import Outage, hold_up, with_clock

SEED = 12
MONDAY, TUESDAY = date(2026, 3, 2), date(2026, 3, 3)
STORE = TwinStore("twin-1", passers=300)
TEN = datetime(2026, 3, 2, 10, tzinfo=UTC).timestamp()
HOUR = 3600
NAMES = ("pos", "traffic", "wifi", "inventory")


def made(*days: date, store: TwinStore = STORE, seed: int = SEED) -> list[SensorMessage]:
    return [
        message
        for day in days
        for message in make_messages(store, day, seed, draw_people(store, day, seed))
    ]


def on_their_way(messages: list[SensorMessage], *outages: Outage) -> list[SentMessage]:
    found = arrivals(messages, Transport(), SEED, STORE.store_id)
    for outage in outages:
        found = hold_up(found, outage, SEED)
    return found


def test_a_day_made_by_itself_is_that_day_of_any_other_run() -> None:
    alone, among = made(TUESDAY), made(MONDAY, TUESDAY)

    assert alone and alone == among[-len(alone) :]
    both = {(one.send_at, one.message) for one in on_their_way(among)}
    assert {(one.send_at, one.message) for one in on_their_way(alone)} <= both
    assert made(TUESDAY, seed=SEED + 1) != alone


def test_no_two_messages_are_one_event() -> None:
    identities = Counter(message.identity for message in made(MONDAY, TUESDAY))

    assert max(identities.values()) == 1
    assert {name.partition("/")[0] for name in identities} == {*NAMES}


def test_tills_count_on_without_a_hole() -> None:
    receipts = [json.loads(one.body) for one in made(MONDAY) if one.source == "pos"]

    for till in {one["vendor_fiscal_module"] for one in receipts}:
        own = [one["transaction_id"] for one in receipts if one["vendor_fiscal_module"] == till]
        assert sorted(own) == list(range(min(own), min(own) + len(own)))


def test_each_article_that_is_sold_is_counted_and_delivered_once_a_day() -> None:
    messages = made(MONDAY)
    told = [json.loads(one.body) for one in messages if one.source == "inventory"]
    receipts = [json.loads(one.body) for one in messages if one.source == "pos"]

    sold = {line["item_id"] for one in receipts for line in one["transactions"]}
    for kind in ("count", "delivery"):
        articles = Counter(one["item_id"] for one in told if one["kind"] == kind)
        assert sold <= articles.keys() and {*articles.values()} == {1}


def test_every_message_keeps_its_contract() -> None:
    sources = loader.builtin_sources().values()
    checks = {source.path.rpartition("/")[2]: load_conversion(source) for source in sources}
    arrival = Arrival(datetime(2026, 3, 3, 1, tzinfo=UTC), 0, 0)
    rules = Rules.from_settings(Settings())

    for message in made(MONDAY):
        event = msgspec.to_builtins(checks[message.source](message.body, arrival, rules))
        assert event["store_id"] == STORE.store_id


def test_nothing_is_told_before_it_is_over() -> None:
    for one in on_their_way(made(MONDAY)):
        assert one.send_at >= one.message.ready_at >= one.message.at


def test_what_an_outage_held_up_comes_at_its_end_and_once_more() -> None:
    first, second = (TEN, TEN + HOUR), (TEN + HOUR, TEN + 2 * HOUR)
    outages = (Outage(*span) for span in (first, second))

    found = on_their_way(made(MONDAY), *outages)

    assert not [one for one in found if TEN <= one.send_at < TEN + 2 * HOUR]
    times = Counter(one.message.identity for one in found)
    held_up = [one.message for one in found if TEN + 60 < one.message.ready_at < TEN + HOUR]
    assert held_up and all(times[message.identity] == 2 for message in held_up)
    assert sorted(times) == sorted(one.identity for one in made(MONDAY))


@pytest.mark.parametrize("fast", [timedelta(days=1), timedelta(weeks=-1)])
def test_a_wrong_clock_moves_what_is_told_and_nothing_else(fast: timedelta) -> None:
    (message, *_) = made(MONDAY)
    told, shown = json.loads(message.body), json.loads(with_clock(message, fast).body)

    at, wrong = (datetime.fromisoformat(one.pop("happened_at")) for one in (told, shown))
    assert (wrong - at, shown) == (fast, told)


class Recorder:
    """A channel that keeps what it is given, in lots as they are settled."""

    def __init__(self) -> None:
        self.lots: list[list[bytes]] = [[]]

    def send(self, _key: str, value: bytes) -> None:
        self.lots[-1].append(value)

    def flush(self) -> None:
        self.lots.append([])


def test_what_arrives_within_a_span_is_sent_in_its_order() -> None:
    twin = TwinDays([STORE, replace(STORE, store_id="twin-2")], [MONDAY], SEED, Transport())

    found = twin.arrivals(TEN, TEN + HOUR)
    channels = {name: Recorder() for name in NAMES}
    sent = send(found, channels, as_it_happens=False)

    assert [one.send_at for one in found] == sorted(one.send_at for one in found)
    assert all(TEN <= one.send_at < TEN + HOUR for one in found)
    assert sent.total() == len(found) > 100
    beats = len({int(one.send_at // PAST_BATCH_SECONDS) for one in found})
    for source, channel in channels.items():
        own = [one.message.body for one in found if one.message.source == source]
        assert [body for lot in channel.lots for body in lot] == own
        assert len(channel.lots) == beats + 1


def test_catching_up_and_going_on_are_one_stream_without_a_hole_or_a_repeat() -> None:
    now = TEN + 7 * HOUR + 30.5
    twin = TwinDays([STORE], [MONDAY, TUESDAY], SEED, Transport(duplicates=0.0))

    past, coming = twin.split_arrivals(now, 0.0, now + 2 * HOUR)

    whole = twin.arrivals(0.0, now + 2 * HOUR)
    assert past + coming == whole and past and coming
    assert max(one.send_at for one in past) < now <= min(one.send_at for one in coming)
    minutes = Counter(one.message.identity for one in whole if one.message.source == "traffic")
    told = [f"traffic/twin-1/door-1/{int(TEN) // 60 + number}" for number in range(8 * 60)]
    assert [minutes[name] for name in told] == [1] * len(told)


def test_catching_up_is_in_the_order_of_time_and_nothing_is_of_the_future() -> None:
    now = TEN + 24 * HOUR
    stores = [STORE, replace(STORE, store_id="twin-2")]
    twin = TwinDays(stores, [MONDAY, TUESDAY], SEED, Transport())

    past, _ = twin.split_arrivals(now, 0.0, now + HOUR)

    assert {one.message.source for one in past} == {*NAMES}
    assert [one.send_at for one in past] == sorted(one.send_at for one in past)
    assert all(one.message.at <= one.message.ready_at <= one.send_at < now for one in past)


def test_no_sighting_is_sent_of_before_the_running_key_period() -> None:
    since = datetime(2026, 3, 3, tzinfo=UTC).timestamp()
    store = replace(STORE, sightings_since=since)
    twin = TwinDays([store], [MONDAY, TUESDAY], SEED, Transport())

    past, coming = twin.split_arrivals(TEN + 24 * HOUR, 0.0, TEN + 25 * HOUR)

    firsts = {
        source: min(one.message.at for one in past + coming if one.message.source == source)
        for source in NAMES
    }
    assert firsts["wifi"] >= since > max(firsts["pos"], firsts["traffic"])
    assert {one.message.source for one in past if one.message.at >= since} == {*firsts}


def test_the_key_period_is_that_of_the_stores_file_as_the_gateway_knows_it(tmp_path: Path) -> None:
    file = tmp_path / "stores.yaml"
    file.write_text('twin-1: {tz: Asia/Kathmandu, day_starts: "04:00"}', "utf-8")
    settings = Settings(stores_file=file, default_timezone="America/New_York")
    half_past_three = datetime(2026, 3, 2, 21, 45, tzinfo=UTC)

    stores = twin_stores(2, 300, "", settings, half_past_three.timestamp())

    begins = [datetime.fromtimestamp(store.sightings_since, UTC) for store in stores]
    assert begins == [
        datetime(2026, 3, 1, 22, 15, tzinfo=UTC),
        datetime(2026, 3, 2, 5, tzinfo=UTC),
    ]


def test_as_it_happens_each_second_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    twin = TwinDays([STORE], [MONDAY], SEED, Transport())
    found = twin.arrivals(TEN, TEN + 60)
    waited: list[float] = []
    monkeypatch.setattr(time, "time", lambda: TEN + sum(waited))

    channels = {name: Recorder() for name in NAMES}
    send(found, channels, as_it_happens=True, pause=waited.append)

    # At the end of the last second that has a message in it.
    assert TEN + sum(waited) == int(found[-1].send_at) + 1


def test_truth_ledger_holds_everybody_and_nobody_s_phone(tmp_path: Path) -> None:
    people = draw_people(STORE, MONDAY, SEED)

    told = write_truth(tmp_path, STORE, MONDAY, people)

    kept = json.loads((tmp_path / "twin-1-2026-03-02.json").read_text("utf-8"))
    assert (told.visitors, told.passers) == (
        sum(one["is_visitor"] for one in kept["people"]),
        sum(not one["is_visitor"] for one in kept["people"]),
    )
    assert told.visitors + told.passers == len(people) == len(kept["people"])
    assert 0 < told.heard < told.visitors and 0 < told.buyers < told.groups
    text = (tmp_path / "twin-1-2026-03-02.json").read_text("utf-8")
    assert not any(one.phone and one.phone.address.hex() in text for one in people)


def test_a_day_on_which_nobody_came_has_no_mean() -> None:
    assert day_truth([])._asdict() == dict.fromkeys(DayTruth._fields[:4], 0) | {
        "stay_seconds": None,
        "heard": 0,
        "heard_stay_seconds": None,
    }
