"""A store that sends whenever it is open is never told of as silent, whatever the day is like and
however far behind the pipeline is; and once it really says nothing, it is, once."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from runtime.registry.sources import SALES
from tally.alerts.message import Alert
from tally.alerts.tick import SpeedEpoch
from tally.config.settings import Settings
from tally.time.instants import to_millis
from tests.support.evaluation.evaluating import SILENT, Watched, Watching
from tests.support.serving.serving_world import at, flip, sale

STORE, ROME = "367", ZoneInfo("Europe/Rome")
# Open over the hour that clocks leave out or have twice; the last span of a week ends on a Sunday.
HOURS = '{mon-sat: "20:00-04:00", sun: closed, holidays: closed}'
QUARTER = timedelta(minutes=15)
# A tick comes soon after a window's end, and after the rule's delay.
SOON = timedelta(minutes=2)
OPENS_AT, CLOSES_AT = 20, 4
SPRING, AUTUMN = "2026-03-28", "2026-10-24"
ORDINARY, HOLIDAY = "2026-10-14", "2026-06-02"
# What is said here of `within` is what a store is asked about by default in a rule on tills.
OPEN_ONLY = replace(SILENT, within="opening_hours")


@dataclass(frozen=True)
class Nights:
    """UTC instants of quarter hours from noon of a local day on, for so many days."""

    first: str
    days: int = 1

    def windows(self) -> Iterator[datetime]:
        begin = datetime.fromisoformat(f"{self.first}T12:00").replace(tzinfo=ROME)
        # The end by the clock: between them lie 92, 96 or 100 quarter hours a day.
        end = begin + timedelta(days=self.days)
        start, stop = (one.astimezone(ZoneInfo("UTC")) for one in (begin, end))
        while start < stop:
            yield start
            start += QUARTER


def is_open(window: datetime, *holidays: str) -> bool:
    """Whether the store is, told without the calendar of the product."""
    clock = window.astimezone(ROME)
    # What comes after midnight is of the day before.
    day = (clock - timedelta(hours=CLOSES_AT)).replace(tzinfo=None).date()
    in_hours = clock.hour >= OPENS_AT or clock.hour < CLOSES_AT
    return in_hours and day.isoweekday() != 7 and day.isoformat() not in holidays


def minute(instant: datetime) -> str:
    return f"{instant:%Y-%m-%dT%H:%M}"


def sells(store: Watched, window: datetime, generation: int | None = None) -> None:
    more = {} if generation is None else {"generation": generation}
    store.world.rows.append(sale(STORE, minute(window), 3, 900, **more))


@pytest.fixture
def open_at_night(begun: Watching, tmp_path: Path) -> Watching:
    """A store by its opening hours, known for days before the first that is looked at."""

    def begin(nights: Nights, country: str = "IT") -> Watched:
        file = tmp_path / "stores.yaml"
        text = f"{STORE}: {{tz: Europe/Rome, country: {country}, opening_hours: {HOURS}}}\n"
        file.write_text(text, "utf-8")
        first = next(nights.windows())
        settings = Settings(stores_file=file)
        store: Watched = begun(OPEN_ONLY, since=minute(first), settings=settings)
        store.sends(minute(first - timedelta(days=5))[:10])
        store.tick(minute(first + SOON))
        return store

    return begin


def silent_for_good(
    store: Watched, nights: Nights, speaking: SpeedEpoch = SpeedEpoch(SALES.epoch)
) -> list[Alert]:
    """What is told from the next time it is open on, when it sends no more: for an hour."""
    *_, last = nights.windows()
    # The next that it would be open in: on an ordinary day, at most three days away.
    opening = next(
        one
        for one in Nights(minute(last)[:10], days=4).windows()
        if one > last and is_open(one) and not is_open(one - QUARTER)
    )
    told: list[Alert] = []
    for number in range(1, 5):
        told += store.tick(minute(opening + number * QUARTER + SOON), speaking=speaking)
    return told


@pytest.mark.parametrize(
    ("first", "days", "hours", "holidays"),
    [
        pytest.param(ORDINARY, 1, 8.0, (), id="ordinary"),
        pytest.param(SPRING, 1, 7.0, (), id="the night of 23 hours"),
        pytest.param(AUTUMN, 1, 9.0, (), id="the night of 25 hours"),
        pytest.param("2026-10-16", 3, 16.0, (), id="closed Sunday"),
        pytest.param("2026-06-01", 2, 8.0, (HOLIDAY,), id="holiday"),
    ],
)
def test_who_sends_while_open_is_not_silent_and_then_once(
    open_at_night: Watching, first: str, days: int, hours: float, holidays: tuple[str, ...]
) -> None:
    nights = Nights(first, days)
    store = open_at_night(nights)
    told: list[Alert] = []
    sent = 0
    for window in nights.windows():
        if is_open(window, *holidays):
            sells(store, window)
            sent += 1
        told += store.tick(minute(window + QUARTER + SOON))

    assert (told, sent / 4) == ([], hours)
    [raised] = silent_for_good(store, nights)
    assert (raised.edge, raised.state, raised.late) == ("raise", "provisional", False)


def test_a_day_without_one_record_that_generations_cover_is_silent_only_while_it_is_open(
    open_at_night: Watching,
) -> None:
    nights = Nights("2026-10-18")
    store = open_at_night(nights)
    *_, last = nights.windows()
    for day in ("2026-10-18", "2026-10-19"):
        store.publish(flip(day, 1, minute(last), 0))

    assert store.tick(minute(last + SOON)) == []
    # Negative control: by its calendar alone it was not silent.
    for day in ("2026-10-18", "2026-10-19", "2026-10-20"):
        store.publish(flip(day, 2, "2026-10-21T06:00", 0))
    [raised] = store.tick("2026-10-21T06:02")
    assert (raised.state, raised.window.start) == ("confirmed", "2026-10-19T18:15:00Z")


@pytest.mark.parametrize("behind", [timedelta(hours=1), timedelta(days=2)])
def test_while_the_normaliser_or_the_speed_layer_is_behind_nobody_is_silent(
    open_at_night: Watching, behind: timedelta
) -> None:
    nights = Nights(ORDINARY)
    store = open_at_night(nights)
    told: list[Alert] = []
    waiting: list[datetime] = []
    for window in nights.windows():
        waiting += [window] if is_open(window) else []
        now = window + QUARTER + SOON
        # Of what has come it has read no more than that.
        while waiting and waiting[0] + QUARTER <= now - behind:
            sells(store, waiting.pop(0))
        told += store.tick(minute(now), through=minute(now - behind))
    # It catches up, at once.
    for window in waiting:
        sells(store, window)
    told += store.tick(minute(now + SOON))

    assert told == []
    [raised] = silent_for_good(store, nights)
    assert not raised.late


@pytest.mark.parametrize("raised_by", ["an erasure", "another definition"])
def test_rows_that_count_no_more_are_no_silence(open_at_night: Watching, raised_by: str) -> None:
    nights = Nights(ORDINARY)
    store = open_at_night(nights)
    windows = [one for one in nights.windows() if is_open(one)]
    epoch = SALES.epoch + 1
    for window in windows:
        sells(store, window)
    now = windows[-1] + QUARTER + SOON
    assert store.tick(minute(now)) == []

    # The speed layer has emptied the day's rows, and has not read all of it again.
    rows = store.world.rows
    store.world.rows = [one for one in rows if one.row.window_start > at(f"{ORDINARY}T23:59")]
    speaking = SpeedEpoch(SALES.epoch)
    if raised_by == "an erasure":
        until = minute(windows[2])
        found = flip(ORDINARY, 1, minute(now), 0, covered_until=until)
        store.publish(replace(found, epoch=epoch))
        for window in windows[:2]:
            sells(store, window, generation=1)
        told = store.tick(minute(now + SOON))
    else:
        store.world.rows = []
        speaking = SpeedEpoch(epoch, floor=to_millis(now))
        told = store.tick(minute(now + SOON), speaking=speaking)

    assert told == []
    [raised] = silent_for_good(store, nights, speaking)
    assert (raised.edge, raised.state, raised.late) == ("raise", "provisional", False)


def test_negative_control_by_the_clock_alone_everybody_is_silent(open_at_night: Watching) -> None:
    """With ticks that claim that all was read, while the normaliser is an hour behind."""
    nights = Nights(ORDINARY)
    store = open_at_night(nights)
    told: list[Alert] = []
    for window in nights.windows():
        if is_open(window - 4 * QUARTER):
            sells(store, window - 4 * QUARTER)
        told += store.tick(minute(window + QUARTER + SOON))

    assert told and {one.rule_id for one in told} == {SILENT.rule_id}
