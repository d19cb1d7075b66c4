"""What a late record costs: the days that it can change are evaluated, and no partition waits for
another one's."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import date, timedelta

import pytest

from alerting.evaluate import step
from alerting.evaluate.snapshot.snapshot_reader import ReadRequest, SnapshotReader
from alerting.evaluate.verdicts import evaluation_pass
from runtime.registry.sources import FAMILIES
from tally.errors import RetryLater
from tests.support.alerts.evaluated_shelves import INVENTORY, SOLD_OUT, look, open_shelves
from tests.support.evaluation.evaluating import BUSY, DAY, Watched, Watching, said, sold
from tests.support.serving.serving_world import flip

SALES = FAMILIES["sales"]
OLD = str(date.fromisoformat(DAY) - timedelta(days=60))


class ReadDays:
    """How many days of stores were read, by family."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.days: list[tuple[str, str]] = []
        read = SnapshotReader.read

        async def noted(snapshot: SnapshotReader, wanted: Sequence[ReadRequest]) -> None:
            self.days += [(one.store_id, str(type(one).__name__)) for one in wanted]
            await read(snapshot, wanted)

        patch.setattr(SnapshotReader, "read", noted)


@pytest.fixture
def shelves(begun: Watching) -> Iterator[Watched]:
    """A store with a stock rule of a hundred days, all of them evaluated by generations."""
    store = begun(SOLD_OUT, since=f"{OLD}T00:00")
    for family in (INVENTORY, SALES):
        store.sends(OLD, family)
        for number in range(-1, 60):
            day = date.fromisoformat(OLD) + timedelta(days=number)
            store.publish(flip(str(day), 1, f"{DAY}T01:00", 0), family)
    with closing(open_shelves(store)) as opened:
        yield opened


def test_restated_day_of_which_no_notice_names_this_store_is_not_read_again(
    shelves: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = ReadDays(monkeypatch)
    # A till that was offline has sent a receipt of another store.
    shelves.publish(flip(OLD, 2, f"{DAY}T08:40", 0), SALES)

    look(shelves, "08:41")
    assert len(read.days) <= 4

    shelves.hint(f"{OLD}T12:00", SALES)
    # Here it is of this store, whose stock of all days since hangs on it.
    assert len(read.days) > 60


def test_restated_day_is_evaluated_everywhere_where_notices_may_have_been_lost(
    shelves: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = ReadDays(monkeypatch)
    shelves.publish(flip(OLD, 2, f"{DAY}T08:40", 0), SALES)

    # Nobody has evaluated for more than a day.
    shelves.tick("2026-11-25T08:41", inventory=1)

    assert len(read.days) > 60


def test_what_was_told_before_the_views_are_away_is_stored_and_the_rest_is_evaluated_later(
    watched: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step, "_RETRY_SECONDS", 0.0)
    store = watched(BUSY)
    sold(store, "09:00", 7)
    store.views.is_down = True
    for _ in range(3):
        with pytest.raises(RetryLater):
            store.tick(f"{DAY}T09:17")
        assert {*store.evaluator.busy_partitions} == {store.partition}
    store.views.is_down = False

    assert said(store.take(store.evaluator.before_commit())) == [("raise", "provisional", "09:00")]
    assert {*store.evaluator.busy_partitions} == set()


def test_tick_counts_as_evaluated_when_all_that_it_speaks_of_is(
    begun: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = begun(BUSY, since="2026-11-15T00:00")
    store.sends("2026-11-14")
    for number in range(1, 9):
        day = str(date.fromisoformat(DAY) - timedelta(days=number))
        store.publish(flip(day, 1, f"{DAY}T08:40", 0))
    # A pass evaluates one day, and nobody has time.
    monkeypatch.setattr(evaluation_pass, "MAX_RULE_DAYS", 1)
    monkeypatch.setattr(type(store.evaluator), "most_seconds", -1.0)

    store.tick(f"{DAY}T09:17")
    transactions = 1
    while store.evaluator.busy_partitions:
        assert store.partition in store.evaluator.busy_partitions
        store.take(store.evaluator.before_commit())
        transactions += 1

    assert transactions > 2
    kept = [one.value for one in store.state if one.key == b"c"]
    assert b'"flips":{"sales":1}' in (kept[-1] or b"")
