"""What is read for one store is read in lots: between two of them a transaction may end."""

from collections.abc import Sequence

import pytest

from alerting.evaluate.snapshot.snapshot_reader import ReadRequest, SnapshotReader
from alerting.evaluate.verdicts import evaluation_pass
from tests.support.evaluation.evaluating import BUSY, DAY, Watched, Watching, said, sold

MOST = 2


class Lots:
    """How much was read at once, and by which transaction."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.of_transactions: list[list[int]] = [[]]
        read = SnapshotReader.read

        async def counted(snapshot: SnapshotReader, wanted: Sequence[ReadRequest]) -> None:
            self.of_transactions[-1].append(len(wanted))
            await read(snapshot, wanted)

        patch.setattr(SnapshotReader, "read", counted)


@pytest.fixture
def store(begun: Watching, monkeypatch: pytest.MonkeyPatch) -> Watched:
    """One that is evaluated since a week ago, by somebody who has no time."""
    monkeypatch.setattr(evaluation_pass, "_MAX_CONCURRENT_READS", MOST)
    found = begun(BUSY, since="2026-11-17T08:00")
    found.sends("2026-11-16")
    sold(found, "09:00", 6)
    return found


def test_a_week_of_one_store_takes_several_transactions_and_is_told_as_ever(
    store: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(store.evaluator), "most_seconds", -1.0)
    lots = Lots(monkeypatch)

    told = store.tick(f"{DAY}T09:17")
    while not told and len(lots.of_transactions) < 20:
        lots.of_transactions.append([])
        told = store.take(store.evaluator.before_commit())

    assert said(told) == [("raise", "provisional", "09:00")]
    by_transaction = [each for each in lots.of_transactions if each]
    assert len(by_transaction) >= 4
    assert all(len(each) == 1 and each[0] <= MOST for each in by_transaction)


def test_who_has_time_reads_all_of_it_in_one(
    store: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    lots = Lots(monkeypatch)

    assert said(store.tick(f"{DAY}T09:17")) == [("raise", "provisional", "09:00")]
    assert max(lots.of_transactions[0]) == MOST and len(lots.of_transactions[0]) >= 4
