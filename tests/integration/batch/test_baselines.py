"""Snapshots of what is usual on the real node: two at once, lost answers, killed and run again."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from cassandra.cluster import Session

from batch_layer.views.baselines import SnapshotReport, make_snapshots
from runtime.connect import cassandra_session
from runtime.registry.sources import SALES
from serving.storage.views import ViewReader
from tally.config.settings import Settings
from tally.errors import StackError
from tests.integration.batch.test_pointer import LOST_ANSWERS, LosingOneAnswer
from tests.support.evaluation.baselines import serving
from tests.support.serving.serving_tables import insert_world
from tests.support.serving.serving_world import World

NIGHT = datetime(2026, 11, 24, 0, 40, tzinfo=UTC)
FIRST = date(2026, 11, 25)
DAYS = [FIRST - timedelta(days=back) for back in range(80, 1, -1)]


@pytest.fixture
def session(settings: Settings, keyspace: str) -> Iterator[Session]:
    """A session on tables that hold no snapshot, and eighty days that one generation serves."""
    with cassandra_session(settings.model_copy(update={"keyspace": keyspace})) as opened:
        for table in ("baseline_snapshot", "batch_pointer", "batch_pointer_history"):
            opened.execute(f"TRUNCATE {table}", timeout=600)
        insert_world(opened, World(pointers=[(SALES, serving(one)) for one in DAYS]))
        yield opened


def made(session: Any, now: datetime = NIGHT, since: date | None = None) -> list[SnapshotReport]:
    return [*make_snapshots(session, lambda: now, since)]


def stored(session: Session) -> list[tuple[Any, ...]]:
    """The rows whole."""
    return sorted(map(tuple, session.execute("SELECT * FROM baseline_snapshot")))


def restate(session: Session, generation: int) -> None:
    insert_world(session, World(pointers=[(SALES, serving(one, generation)) for one in DAYS]))


def test_a_snapshot_is_made_once_and_whoever_comes_later_finds_it(session: Session) -> None:
    [first] = made(session)
    before = stored(session)
    restate(session, 2)

    [again] = made(session, NIGHT + timedelta(hours=3))

    assert (first.number, first.first_day, first.made) == (20_782, "2026-11-25", True)
    assert (first.days["sales"], first.days["traffic"]) == (63, 0)
    assert again == SnapshotReport(**{**vars(first), "made": False})
    assert stored(session) == before
    [next_night] = made(session, NIGHT + timedelta(days=1))
    assert (next_night.number, next_night.made, len(stored(session))) == (20_783, True, 2)


def test_of_many_at_once_one_writes_and_all_say_the_same(session: Session) -> None:
    def run(number: int) -> SnapshotReport:
        restate(session, number + 2)
        return made(session, NIGHT + timedelta(seconds=number))[0]

    with ThreadPoolExecutor(8) as pool:
        found = [*pool.map(run, range(8))]

    assert sorted(one.made for one in found) == [False] * 7 + [True]
    assert len({one.made_at for one in found}) == len(stored(session)) == 1


@pytest.mark.parametrize("error", LOST_ANSWERS, ids=str)
@pytest.mark.parametrize("applied", [True, False])
def test_of_a_lost_answer_is_read_what_became_of_it(
    session: Session, error: Exception, applied: bool
) -> None:
    losing: Any = LosingOneAnswer(session, error, applied)
    if applied:
        assert [one.made for one in made(losing)] == [True]
    else:
        with pytest.raises(StackError, match="was not written; look at `tally status`"):
            made(losing)

    made(session)
    assert (losing.lost, len(stored(session))) == (1, 1)


def test_who_was_too_slow_writes_nothing(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("batch_layer.views.baselines.SLOWEST", timedelta(seconds=-1))

    with pytest.raises(StackError, match="took over an hour"):
        made(session)
    assert stored(session) == []


def test_a_past_gets_them_backwards_and_no_day_another_than_it_had(session: Session) -> None:
    made(session)
    since = FIRST - timedelta(days=3)

    with pytest.raises(StackError, match="was not written"):
        made(LosingALaterAnswer(session), since=since)
    half = stored(session)
    restate(session, 2)
    reports = made(session, NIGHT + timedelta(hours=1), since)
    more = made(session, NIGHT + timedelta(hours=2), since)

    assert len(half) == 2 and {*half} <= {*stored(session)}
    assert [one.first_day for one in reports] == ["2026-11-25", "2026-11-23", "2026-11-22"]
    assert [one.first_day for one in more] == ["2026-11-25"]


def test_a_past_begins_with_the_first_day_that_anything_serves(session: Session) -> None:
    """A year of 0206 for 2026 is no reason for hundreds of thousands of snapshots."""
    reports = made(session, since=date.min)

    assert (reports[-1].first_day, len(reports)) == (DAYS[0].isoformat(), 81)


def test_a_past_without_any_day_that_is_served_has_no_snapshot(session: Session) -> None:
    session.execute("TRUNCATE batch_pointer", timeout=600)

    assert [one.first_day for one in made(session, since=date(2026, 1, 1))] == ["2026-11-25"]


class LosingALaterAnswer(LosingOneAnswer):
    """The third write is not applied: as if it died within the past that it makes."""

    def __init__(self, session: Session) -> None:
        super().__init__(session, LOST_ANSWERS[0], applied=False)
        self._left = 2

    def execute(self, statement: Any, values: Any = None) -> Any:
        if " IF " in getattr(statement, "query_string", "") and self._left:
            self._left -= 1
            return self._session.execute(statement, values)
        return super().execute(statement, values)


def test_a_reader_has_the_newest_that_began_by_a_day(
    session: Session, settings: Settings, keyspace: str
) -> None:
    made(session, since=FIRST - timedelta(days=1))
    views = ViewReader(settings.model_copy(update={"keyspace": keyspace}))

    async def asked() -> list[str | None]:
        days = [FIRST + timedelta(days=more) for more in (-2, -1, 0, 300)]
        found = [await views.baselines.snapshot_for(one) for one in days]
        return [one.first_day.isoformat() if one else None for one in found]

    assert asyncio.run(asked()) == [None, "2026-11-24", "2026-11-25", "2026-11-25"]
    views.close()


def test_killed_at_any_moment_and_run_again_there_is_one_of_the_same_bytes(
    session: Session, kafka: str, settings: Settings, keyspace: str
) -> None:
    own = {
        "TALLY_KAFKA": settings.kafka,
        "TALLY_CASSANDRA": settings.cassandra,
        "TALLY_KEYSPACE": keyspace,
        "TALLY_HOME": str(settings.home),
    }
    command = [sys.executable, "-m", "batch_layer.views.baselines", "--json"]

    def begun() -> "subprocess.Popen[str]":
        return subprocess.Popen(
            command, env={**os.environ, **own}, stdout=subprocess.PIPE, text=True
        )

    seen = set()
    for tenths in (4, 8, 11, 14, 17, 20, 24):
        process = begun()
        try:
            process.wait(tenths / 10)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        process.communicate()
        seen |= {*stored(session)}
    both = [begun(), begun()]
    told = [json.loads(one.communicate(timeout=600)[0]) for one in both]

    seen |= {*stored(session)}
    assert [one.returncode for one in both] == [0, 0]
    assert len(seen) == len(stored(session)) == 1
    assert told[0]["first_day"] == told[1]["first_day"] == str(next(iter(seen))[1])
