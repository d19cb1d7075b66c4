"""Several tickers hear each other: the number of ticks goes on when any one of them ends."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from alerting.watermark import ticker
from alerting.watermark.ticker import Ticker
from tally.alerts.tick import Tick, merge_ticks
from tally.config.settings import Settings
from tally.time.instants import from_millis

SETTINGS = Settings.load({"TALLY_PARTITIONS": "2"})
BEGIN = 1_795_694_400_000
SECONDS = 5.0
DAY_TURNS = 17_280


class Topic:
    """The topic of ticks, and a pipeline that says nothing; each record with who wrote it."""

    reported_positions: Mapping[str, Mapping[int, int]] = {}

    def __init__(self) -> None:
        self.records: dict[int, list[Tick]] = {0: [], 1: []}

    def known(self, _settings: Settings, **_newest: bool) -> dict[int, Tick]:
        return {
            number: merge_ticks(Tick(), records[-1])
            for number, records in self.records.items()
            if records
        }

    def send(self, ticks: Mapping[int, Tick]) -> int:
        for number, tick in ticks.items():
            self.records[number].append(tick)
        return BEGIN

    def rules_until(self) -> int:
        return 0

    def nothing(self) -> dict[str, Mapping[int, int]]:
        return {}

    raw_ends = positions = canonical_ends = stable_ends = nothing
    speed_positions = nothing


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    there = Topic()

    @contextmanager
    def pipeline(*_asked: object) -> Iterator[Topic]:
        yield there

    monkeypatch.setattr(ticker, "open_pipeline", pipeline)
    monkeypatch.setattr(ticker, "read_ticks", there.known)
    monkeypatch.setattr(ticker, "read_broker_time", lambda _settings: from_millis(BEGIN))
    return there


def ticker_of(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> Ticker:
    one = Ticker(SETTINGS)
    monkeypatch.setattr(one, "_send", topic.send)
    monkeypatch.setattr(one._views, "flip_tokens", lambda _families: {})
    return one


def turns(tickers: Mapping[float, Ticker], seconds: float) -> None:
    """Each ticks as often as its turn takes, in the order in which they come to it."""
    due = dict.fromkeys(tickers, 0.0)
    while (first := min(due, key=lambda period: due[period])) is not None:
        if due[first] > seconds:
            return
        tickers[first].tick()
        due[first] += first


def test_when_the_faster_one_ends_the_number_of_ticks_goes_on_at_once(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast, slow = (ticker_of(topic, monkeypatch) for _ in range(2))
    # Ten milliseconds more a turn, for a day: 34 turns behind without hearing.
    turns({SECONDS: fast, SECONDS + 0.01: slow}, DAY_TURNS * SECONDS)
    reached = topic.records[0][-1].n
    fast.close()

    numbers = []
    for _ in range(5):
        slow.tick()
        numbers.append(topic.records[0][-1].n - reached)

    assert numbers[-1] >= 4, numbers
    assert numbers == sorted(numbers)


def test_two_tickers_make_the_number_grow_no_faster_than_one(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    tickers = [ticker_of(topic, monkeypatch) for _ in range(3)]
    for _ in range(100):
        for one in tickers:
            one.tick()

    # Each begins one further than what it found.
    assert 100 <= topic.records[1][-1].n <= 102


def test_what_another_one_says_is_said_on(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    one = ticker_of(topic, monkeypatch)
    one.tick()
    topic.records[0].append(Tick(n=500, at=BEGIN + 7, through={"sales": 9}, flips={"sales": 3}))

    one.tick()

    said = topic.records[0][-1]
    assert (said.n, said.at, said.flips) == (500, BEGIN + 7, {"sales": 3})
    assert dict(said.through) == {"sales": 9}
    assert topic.records[1][-1].n == 2
