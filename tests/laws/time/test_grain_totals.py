"""Totals that rules are evaluated by are plain sums over the rows of an hour, of a day, or since
the store opened; and a simulation says of them what was told."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import dropwhile
from pathlib import Path
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from alerting.evaluate.verdicts.store_evaluator import alert_value
from alerting.rules.rule import Rule, RuleGrain, Threshold
from serving.storage.tables import ViewRow
from tally.config.settings import Settings
from tally.time.instants import from_millis
from tests.support.alerts.store_evaluation import StoreEvaluation
from tests.support.evaluation.evaluating import ListedRules, Watched, in_force
from tests.support.evaluation.simulating import compared
from tests.support.serving.serving_world import Stored, World, at, counted, flip, sale

WINDOW = timedelta(minutes=15)


def rows_of(noon: str, random: Random) -> dict[datetime, tuple[int, int]]:
    """By window of 48 hours around the instant receipts and visitors, both at least one."""
    first = at(noon) - timedelta(hours=24)
    windows = [first + more * WINDOW for more in range(192)]
    return {one: (random.randint(1, 6), random.randint(1, 9)) for one in windows}


def stored(rows: Mapping[datetime, tuple[int, int]], generation: int) -> list[Stored]:
    found = []
    for window, (receipts, visitors) in rows.items():
        start = f"{window:%Y-%m-%dT%H:%M}"
        found.append(sale("367", start, receipts, 250 * receipts, generation=generation))
        found.append(counted("367", start, visitors, visitors, generation))
    return found


def world_of(rows: Mapping[datetime, tuple[int, int]]) -> World:
    """The rows as generations of their days have them, which cover these whole."""
    world = World(rows=stored(rows, 1))
    for day in sorted({f"{one:%Y-%m-%d}" for one in rows}):
        for family in {one.family.name: one.family for one in world.rows}.values():
            world.pointers.append((family, flip(day, 1, f"{day}T23:59", 0)))
    return world


def local_day(noon: str, zone: ZoneInfo, day_starts: int) -> list[datetime]:
    """The windows of the store's day that holds the instant, by walking over its clock."""
    date = (at(noon).astimezone(zone) - timedelta(hours=day_starts)).date()
    found = []
    window = at(noon) - timedelta(hours=30)
    for _ in range(4 * 60):
        shown = window.astimezone(zone).replace(tzinfo=None)
        if (shown - timedelta(hours=day_starts)).date() == date:
            found.append(window)
        window += WINDOW
    return found


def oracle(
    grain: RuleGrain, windows: Sequence[datetime], zone: ZoneInfo, opening: str
) -> dict[datetime, list[datetime]]:
    """By window in which something is evaluated the windows that are summed up."""
    if grain == "day":
        return {windows[-1]: [*windows]}
    if grain == "since_opening":
        begun = [*dropwhile(lambda one: f"{one.astimezone(zone):%H:%M}" != opening, windows)]
        return {one: begun[: place + 1] for place, one in enumerate(begun)}
    found: dict[datetime, list[datetime]] = {}
    hour: list[datetime] = []
    for one in windows:
        hour.append(one)
        if (one + WINDOW).astimezone(zone).minute == 0:
            found[one], hour = hour, []
    return found


VALUES: dict[str, Callable[[Sequence[tuple[int, int]]], Fraction]] = {
    "transactions": lambda rows: Fraction(sum(sold for sold, _ in rows)),
    "visitors_in": lambda rows: Fraction(sum(seen for _, seen in rows)),
    "conversion": lambda rows: Fraction(
        sum(sold for sold, _ in rows), sum(seen for _, seen in rows)
    ),
}


def stores_file(folder: Path, **fields: Any) -> Path:
    named = "".join(f"  {name}: {value}\n" for name, value in fields.items())
    file = folder / "stores.yaml"
    file.write_text(f"'367':\n{named}", encoding="utf-8")
    return file


# Noon, zone, hours after midnight at which days begin, windows of the day.
DAYS = [
    ("2026-11-24T12:00", "Europe/Rome", 0, 96),
    ("2026-03-29T12:00", "Europe/Rome", 0, 92),
    ("2026-10-25T12:00", "Europe/Rome", 0, 100),
    ("2026-03-28T12:00", "Europe/Rome", 4, 92),
    ("2026-10-24T12:00", "Europe/Rome", 4, 100),
    ("2026-11-24T12:00", "Asia/Kathmandu", 4, 96),
]


@pytest.mark.parametrize("grain", ["hour", "day", "since_opening"])
@pytest.mark.parametrize("metric", [*VALUES])
@pytest.mark.parametrize("day", DAYS)
def test_totals_are_plain_sums_over_the_rows_of_the_day(
    day: tuple[str, str, int, int],
    metric: str,
    grain: RuleGrain,
    tmp_path: Path,
) -> None:
    noon, zone, day_starts, length = day
    rows = rows_of(noon, Random(length + day_starts))
    hours = '{mon-sun: "08:00-20:00"}'
    file = stores_file(
        tmp_path, tz=zone, day_starts=f'"0{day_starts}:00"', opening_hours=hours, currency="EUR"
    )
    evaluation = StoreEvaluation(
        world_of(rows), "2026-12-24T00:00", settings=Settings(stores_file=file)
    )
    windows = local_day(noon, ZoneInfo(zone), day_starts)
    expected = oracle(grain, windows, ZoneInfo(zone), "08:00")
    wanted = Rule(
        rule_id="total",
        metric=metric,
        grain=grain,
        condition=Threshold(">=", Decimal("0.5")),
        minimum={"visitors_in": 1},
    )
    totals = [VALUES[metric]([rows[one] for one in parts]) for parts in expected.values()]
    # Half of the totals lie on or above it.
    middle = sorted(totals)[len(totals) // 2]
    border = Decimal(middle.numerator) / Decimal(middle.denominator)
    wanted = replace(wanted, condition=Threshold(">=", round(border, 6)))

    found = evaluation.of_day(wanted, noon)

    compared = 0
    assert len(found) == len(windows) == length
    for window, one in zip(windows, found, strict=True):
        assert from_millis(one.verdict.window) == window
        if window not in expected:
            assert one.verdict.verdict == 0
            continue
        total = VALUES[metric]([rows[part] for part in expected[window]])
        assert one.verdict.verdict == (1 if total >= Fraction(round(border, 6)) else -1)
        assert alert_value(one) == pytest.approx(float(total), abs=1e-6)
        compared += 1
    assert compared == len(expected) == {"day": 1, "hour": length // 4}.get(grain, compared)
    assert compared > 0


def test_a_mean_of_shares_in_place_of_the_share_of_sums_would_be_found() -> None:
    rows = [*rows_of(DAYS[0][0], Random(1)).values()]
    hours = [rows[place : place + 4] for place in range(0, len(rows), 4)]

    means = [sum(map(VALUES["conversion"], ([one] for one in hour))) / 4 for hour in hours]

    shares = [*map(VALUES["conversion"], hours)]
    assert sum(share != mean for share, mean in zip(shares, means, strict=True)) > 20


@pytest.mark.parametrize("grain", ["hour", "day", "since_opening"])
@pytest.mark.parametrize("runs", [1, 2])
def test_what_was_told_is_what_a_simulation_says(grain: RuleGrain, runs: int) -> None:
    equal = 0
    for seed in range(2):
        random = Random(seed)
        many = {"hour": 14, "day": 200, "since_opening": 150}[grain]
        of = Rule(
            rule_id="total",
            metric="transactions",
            grain=grain,
            condition=Threshold(">=", Decimal(many)),
            for_=runs,
            on_silence=random.choice(("hold", "raise")),
        )
        with closing(Watched(ListedRules(in_force(of, "2026-11-20T00:00")))) as store:
            store.sends("2026-11-18")
            live_for_days(store, random)
            found = compared(store, "total", "2026-11-20T00:00", "2026-11-24T00:00")
        assert found.differences == []
        equal += found.equal

    assert equal >= {"hour": 3, "day": 1, "since_opening": 2}[grain]


def live_for_days(store: Watched, random: Random) -> None:
    """Some days as they come: ticks each four hours, some records late, a generation each night
    of the day before, and another of some day later."""
    counts = {"2026-11-20": 1, "2026-11-21": 4, "2026-11-22": 5, "2026-11-23": 2, "2026-11-24": 1}
    late: dict[str, Stored] = {}
    generation = 0
    for day, most in counts.items():
        for quarter in range(96):
            now = at(f"{day}T00:00") + (quarter + 1) * WINDOW
            start = f"{now - WINDOW:%Y-%m-%dT%H:%M}"
            if random.random() < 0.95:
                row = sale(store.store, start, random.randint(1, most), 100)
                if random.random() < 0.05:
                    late[day] = row
                else:
                    store.world.rows.append(row)
            if quarter % 16 == 15:
                store.tick(f"{now + timedelta(minutes=2):%Y-%m-%dT%H:%M}")
        for again in {day, random.choice([*counts][: [*counts].index(day) + 1])}:
            generation += 1
            speed = [one for one in store.world.rows if one.generation is None]
            found = [*speed, *([late[again]] if again in late else ())]
            store.world.rows += [
                replace(one, generation=generation, row=settled_row(one, generation))
                for one in found
                if f"{one.row.window_start:%Y-%m-%d}" == again
            ]
            store.publish(flip(again, generation, f"{day}T23:59", 0))
            store.tick(f"{now + timedelta(minutes=3 + generation % 7):%Y-%m-%dT%H:%M}")


def settled_row(one: Stored, generation: int) -> ViewRow:
    """The row as a generation has it."""
    start = f"{one.row.window_start:%Y-%m-%dT%H:%M}"
    return sale(one.store_id, start, one.row.events, 100, generation=generation).row
