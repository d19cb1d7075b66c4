"""The oracle of the chaos tests beside an evaluator in memory: of each kind of stretch both say the
same, and what they say is what somebody would expect."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from random import Random

import pytest

from tally.time.instants import format_utc
from tests.support.alerts.alert_oracle import AlertMessages, messages, provisional
from tests.support.alerts.alert_receipts import (
    RULES,
    STRETCH,
    STRETCHES,
    SentReceipt,
    counted,
    sent_receipts,
)
from tests.support.evaluation.evaluating import DAY, Watched, Watching, sold
from tests.support.serving.serving_world import at, flip, sale

FIRST = at(f"{DAY}T09:00")
STORE = "367"
# So many events the rebuild has had: what was taken back is an event too.
MANY = 100


def of_stretch(name: str, monkeypatch: pytest.MonkeyPatch) -> list[SentReceipt]:
    """What a store sends in a stretch of that kind."""
    monkeypatch.setattr(
        "tests.support.alerts.alert_receipts.STRETCHES", {name: STRETCHES[name]}, raising=True
    )
    return [*sent_receipts(Random(1), 0, STORE)]


def told(
    store: Watched, receipts: Sequence[SentReceipt], *, in_time: bool = True
) -> Counter[tuple[str, str]]:
    """What an evaluator tells of them: quarter hour after quarter hour and then of a rebuild, or
    of the rebuild alone."""
    early, final = (counted(receipts, in_the_end=one) for one in (False, True))
    for number in range(STRETCH):
        if count := early.get((STORE, number)):
            sold(store, time_of(number), count)
        if in_time:
            store.hint(f"{DAY}T{time_of(number)}")
            store.tick(f"{DAY}T{time_of(number + 1)}:01")
        if count := final.get((STORE, number)):
            more = {"receipts": count, "generation": 1}
            start = f"{DAY}T{time_of(number)}"
            store.world.rows.append(sale(STORE, start, MANY, 100, **more))
    store.publish(flip(DAY, 1, f"{DAY}T12:00", 0, covered_until=f"{DAY}T{time_of(STRETCH)}"))
    store.tick(f"{DAY}T12:01", through=f"{DAY}T{time_of(STRETCH)}")
    return Counter((one.alert_id, one.state) for one in store.alerts)


def time_of(number: int) -> str:
    """When the quarter hour begins, as a clock has it."""
    return format_utc(FIRST + number * timedelta(minutes=15))[11:16]


@pytest.mark.parametrize("in_time", [True, False])
@pytest.mark.parametrize("name", STRETCHES)
def test_evaluator_tells_what_the_oracle_expects(
    name: str, in_time: bool, begun: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    receipts = of_stretch(name, monkeypatch)
    store = begun(*RULES, since=f"{DAY}T09:00")
    store.sends("2026-11-20")
    store.tick(f"{DAY}T08:50", through=f"{DAY}T07:00")

    found = told(store, receipts, in_time=in_time)

    assert found == Counter(messages(receipts, FIRST, told_in_time=in_time))


@pytest.mark.parametrize(
    ("name", "early", "late"),
    [
        ("as always", 0, 0),
        ("high, then low", 4, 4),
        ("late", 0, 4),
        ("nothing in time", 4, 4),
        # A raise and its end are taken back, the other raise stays.
        ("two are one", 8, 8),
        # The second half is told of by a rebuild, and its end is the second of that name.
        ("one was two", 4, 8),
    ],
)
def test_oracle_counts_messages_as_somebody_would(
    name: str, early: int, late: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: AlertMessages = messages(of_stretch(name, monkeypatch), FIRST)

    assert (len(provisional(found)), len(found - provisional(found))) == (early, late)
