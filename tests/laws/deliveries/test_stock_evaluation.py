"""Whatever has woken an evaluator, and however late receipts and documents came: once generations
have all of them it stands by the times in which a shelf was empty, and by no others."""

from collections.abc import Sequence
from contextlib import closing
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.alerts.evaluated_shelves import (
    EVENING,
    SOLD_OUT,
    deliver,
    look,
    open_shelves,
    rebuild,
    sell,
)
from tests.support.evaluation.evaluating import DAY, ListedRules, Watched, in_force
from tests.support.evaluation.simulating import compared
from tests.support.questions.stock_world import moved

QUARTERS, ENOUGH, FIRST_HOUR = 16, 5, 8
DAYS = ("2026-11-23", DAY)


class ShopEvent(NamedTuple):
    """So many units came, or were sold where they are below 0; by number of the quarter hour."""

    quarter: int
    article: str
    units: int

    @property
    def start(self) -> str:
        return clock(self.quarter)


events = st.lists(
    st.builds(
        ShopEvent,
        st.integers(0, QUARTERS - 1),
        st.sampled_from([*EVENING]),
        st.integers(-12, 12).filter(bool),
    ),
    max_size=10,
    # A row of a view is a quarter hour's.
    unique_by=lambda one: one.quarter,
)


def clock(quarter: int) -> str:
    return f"{FIRST_HOUR + quarter // 4:02d}:{quarter % 4 * 15:02d}"


def episodes_of(told: Sequence[ShopEvent], *, one_by_one: bool) -> set[tuple[str, str, str]]:
    """Subject, edge and window of each alert that stands at the end."""
    rules = ListedRules(in_force(SOLD_OUT, f"{DAY}T08:00"))
    with closing(Watched(rules)) as shop:
        open_shelves(shop)
        if not one_by_one:
            # It is awake at the very end alone: nobody tells it anything before.
            shop.come = lambda *_: []  # type: ignore[method-assign]
        for number, one in enumerate(told):
            if one.units > 0:
                deliver(shop, one.start, one.article, (0, moved(one.units)))
            else:
                sell(shop, one.start, number, **{one.article: -one.units})
        if not one_by_one:
            del shop.come
        # By the speed layer first, as it would be.
        look(shop, "12:02")
        rebuild(shop, *DAYS)
        look(shop, "12:04")
        # Whatever has woken it, and in which order.
        compare_with_simulated(shop)
    last = {one.alert_id: one for one in shop.alerts}
    standing = [one for one in last.values() if one.state != "retracted"]
    assert {one.state for one in standing} <= {"confirmed"}
    return {(one.subject, one.edge, one.window.start[11:16]) for one in standing}


def compare_with_simulated(shop: Watched) -> None:
    """Live equals simulate, article by article; and one alert less is a difference."""
    span = SOLD_OUT.rule_id, f"{DAY}T07:00", f"{DAY}T12:15"
    last = {one.alert_id: one for one in shop.alerts}.values()
    standing = [one for one in last if one.state == "confirmed"]
    assert compared(shop, *span) == (len(standing), [], 0)
    if standing:
        shop.alerts, kept = [one for one in last if one != standing[-1]], shop.alerts
        differences = compared(shop, *span).differences
        assert {one.subject for one in differences} == {standing[-1].subject}
        shop.alerts = kept


def by_hand(told: Sequence[ShopEvent], article: str) -> list[tuple[int, int | None]]:
    """First and last quarter hour of each time that the shelf was empty."""
    units = {one.quarter: one.units for one in told if one.article == article}
    level, found = EVENING[article], list[tuple[int, int | None]]()
    # One more, in which nothing moves: it is evaluated too.
    for quarter in range(QUARTERS + 1):
        before, level = level, level + units.get(quarter, 0)
        is_open = bool(found) and found[-1][1] is None
        if min(before, level) <= 0 and not is_open:
            found.append((quarter, None))
        elif min(before, level) > 0 and level >= ENOUGH and is_open:
            found[-1] = found[-1][0], quarter
    return found


def expected(told: Sequence[ShopEvent]) -> set[tuple[str, str, str]]:
    found = set()
    for article in EVENING:
        for start, end in by_hand(told, article):
            found.add((f"item:{article}", "raise", clock(start)))
            if end is not None:
                found.add((f"item:{article}", "clear", clock(end)))
    return found


@settings(max_examples=60, deadline=None)
@given(told=events)
def test_evaluated_at_once_it_is_the_times_in_which_a_shelf_was_empty(
    told: list[ShopEvent],
) -> None:
    assert episodes_of(told, one_by_one=False) == expected(told)


@settings(max_examples=60, deadline=None)
@given(told=events)
def test_woken_one_by_one_in_any_order_each_time_has_one_raise_inside(
    told: list[ShopEvent],
) -> None:
    found = episodes_of(told, one_by_one=True)

    for article in EVENING:
        raise_of = f"item:{article}", "raise"
        raises = sorted(at for *what, at in found if tuple(what) == raise_of)
        episodes = by_hand(told, article)
        assert len(raises) == len(episodes)
        for at, (start, end) in zip(raises, episodes, strict=True):
            assert clock(start) <= at and (end is None or at < clock(end))
