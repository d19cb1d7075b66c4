"""What the audit makes of the rows of the serving tables: the very windows that a reader is
served."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ops.audit.served import batch_windows, merge_windows
from ops.oracle import WHOLE
from serving.merge.served import window_states
from serving.storage.tables import ViewRow
from tally.algebra.merge import WindowState
from tally.algebra.parts import Min, Sum
from tally.families.family import Family
from tally.families.kind import DERIVED
from tests.support.serving.stored_rows import StoredSession, claim_of, pointer_row, view_row

TEN = datetime(2026, 3, 2, 10, tzinfo=UTC)
WINDOW = ("367", TEN)
QUEUES = Family("queues", axes=("queue",), parts=(Sum("arrived"), Min("wait_seconds")), epoch=1)
VISITS = Family("visits", axes=(), parts=(Sum("visits"),), epoch=1, kind=DERIVED)
MINUTES = ("10:15", "10:30", "11:00", "11:15", "11:30")
CLAIM = claim_of(TEN, TEN + timedelta(hours=1))


def row(queue: str, events: int, epoch: int = 1, **excluded: int | None) -> ViewRow:
    taken = (excluded.get("arrived", 0), excluded.get("wait_seconds"))
    return ViewRow(TEN, (queue,), epoch, events, (events, 5), taken)


def audited(*rows: ViewRow) -> WindowState:
    """The batch state of the window as the audit reads it."""
    stored = [view_row(QUEUES, WINDOW, one.events, **_columns(one)) for one in rows]
    session: Any = StoredSession({QUEUES.batch_table: stored})
    return batch_windows(session, WHOLE, QUEUES, {CLAIM.day: CLAIM})[WINDOW]


def served(*rows: ViewRow) -> WindowState:
    """The same as a reader of the API has it."""
    return window_states(QUEUES, rows)[TEN]


BOTH = pytest.mark.parametrize("state", [audited, served])


@BOTH
@pytest.mark.parametrize("order", [1, -1])
def test_a_window_of_two_registers_has_the_higher_in_whatever_order_its_rows_come(
    state: Any, order: int
) -> None:
    found = state(*[row("tills", 2), row("returns", 3)][::order])
    assert (found.epoch, found.events, len(found.values)) == (1, 3, 2)

    found = state(*[row("tills", 9), row("returns", 3, epoch=2)][::order])
    assert (found.epoch, found.events) == (2, 3)


@BOTH
def test_an_excluded_minimum_of_nought_is_something_and_one_of_none_is_not(state: Any) -> None:
    found = state(row("tills", 2, wait_seconds=0), row("returns", 2))

    assert found.excluded == {("tills",): {"arrived": 0, "wait_seconds": 0}}


@BOTH
@pytest.mark.parametrize(("least", "source"), [(0, "batch"), (None, "speed")])
def test_a_minimum_of_nought_that_batch_excluded_is_not_served_again_from_the_speed_layer(
    state: Any, least: int | None, source: str
) -> None:
    richer = WindowState(1, 3, {("tills",): {"arrived": 3, "wait_seconds": 0}})
    batch = state(row("tills", 2, wait_seconds=least))

    assert QUEUES.kind.merge(QUEUES.parts, richer, batch, True).source == source


@BOTH
def test_an_excluded_column_that_the_row_does_not_have_is_the_zero_of_its_part(state: Any) -> None:
    rows = [row("tills", 2, arrived=None, wait_seconds=4), row("returns", 2, arrived=None)]

    assert state(*rows).excluded == {("tills",): {"arrived": 0, "wait_seconds": 4}}


@pytest.mark.parametrize(
    ("start", "source", "visits"),
    # Claimed from ten to eleven: of half past the generation has a row, of a quarter past none.
    [
        ("10:30", "batch", 7),
        ("10:15", "batch", None),
        ("11:00", "batch", 7),
        ("11:15", None, None),
        ("11:30", "speed", 9),
    ],
)
def test_a_derived_family_is_served_from_batch_where_its_generation_covers_or_has_the_window(
    start: str, source: str | None, visits: int | None
) -> None:
    at = {name: TEN.replace(hour=int(name[:2]), minute=int(name[3:])) for name in MINUTES}
    batch = [
        view_row(VISITS, ("367", at[name]), 4, visits=7, generation=generation)
        for name, generation in (("10:30", 1), ("11:00", 1), ("11:15", 2))
    ]
    speed = [
        view_row(VISITS, ("367", at[name]), 90, visits=9)
        for name in ("10:15", "10:30", "11:00", "11:30")
    ]
    tables = {VISITS.batch_table: batch, VISITS.speed_table: speed}
    session: Any = StoredSession({**tables, "batch_pointer": [pointer_row(CLAIM)]})

    found = merge_windows(session, WHOLE, VISITS).get(("367", at[start]))

    assert (found and found.source) == source
    assert found is None or found.values == ({(): {"visits": visits}} if visits else {})


@pytest.mark.parametrize(("epoch", "source"), [(1, "batch"), (2, "speed")])
def test_a_covered_window_without_a_row_is_a_zero_of_its_generation_s_epoch(
    epoch: int, source: str
) -> None:
    claim = replace(CLAIM, epoch=2)
    speed = view_row(QUEUES, WINDOW, 3, epoch=epoch, queue="tills", arrived=3, wait_seconds=5)
    session: Any = StoredSession(
        {QUEUES.speed_table: [speed], "batch_pointer": [pointer_row(claim)]}
    )

    assert merge_windows(session, WHOLE, QUEUES)[WINDOW].source == source


def _columns(one: ViewRow) -> dict[str, Any]:
    named = dict(zip(QUEUES.part_names, one.parts, strict=True))
    taken = dict(zip(QUEUES.exclusion_columns, one.excluded, strict=True))
    return {"queue": one.axes[0], "epoch": one.epoch, "generation": 1, **named, **taken}
