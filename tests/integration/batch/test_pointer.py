"""Fencing tokens and the flip on the real node: late runs, older pins, lost answers, crashes."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any
from uuid import uuid4

import pytest
from cassandra import OperationTimedOut, WriteTimeout, WriteType
from cassandra.cluster import Session
from cassandra.protocol import ErrorMessage
from cassandra.query import BatchStatement

from batch_layer.views.compute.scope import Claim
from batch_layer.views.publish import pointer
from batch_layer.views.publish.pointer import PointerTable, RebuildRun
from runtime.connect import cassandra_session
from tally.config.settings import Settings
from tally.errors import PublicationRefused
from tally.families.epochs import Epochs
from tally.time.windows import day_start

MONDAY, TUESDAY = date(2017, 3, 6), date(2017, 3, 7)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TIMED_OUT = WriteTimeout(
    "no answer", consistency=8, required_responses=1, received_responses=0, write_type=WriteType.CAS
)
UNKNOWN = ErrorMessage(code=0x1700, message="CAS operation result is unknown", info=None)
LOST_ANSWERS = [OperationTimedOut(), TIMED_OUT, UNKNOWN]


class LosingOneAnswer:
    """A session whose first lightweight transaction ends in an error, applied or not."""

    def __init__(self, session: Session, error: Exception, applied: bool = True) -> None:
        self._session, self._error, self._applied = session, error, applied
        self.lost = 0
        self.cluster, self.keyspace = session.cluster, session.keyspace

    def prepare(self, statement: str) -> Any:
        return self._session.prepare(statement)

    def execute_async(self, *given: Any, **named: Any) -> Any:
        return self._session.execute_async(*given, **named)

    def execute(self, statement: Any, values: Any = None) -> Any:
        if self.lost or not (
            isinstance(statement, BatchStatement) or " IF " in statement.query_string
        ):
            return self._session.execute(statement, values)
        self.lost += 1
        if self._applied:
            self._session.execute(statement, values)
        raise self._error


@pytest.fixture(scope="module")
def session(settings: Settings, keyspace: str) -> Iterator[Session]:
    with cassandra_session(settings.model_copy(update={"keyspace": keyspace})) as opened:
        yield opened


@pytest.fixture
def table(session: Session) -> PointerTable:
    """The pointer of a family of the test's own."""
    return PointerTable(session, f"family-{uuid4().hex}")


def generation(table: PointerTable, token: int, pinned: int = 10) -> RebuildRun:
    """A run whose rows were compared with those that serve now."""
    extent = 7, {0: pinned}
    return RebuildRun(table.family, token, Epochs(1), *extent, NOW, replaced=table.current())


def claims(*days: date) -> dict[date, Claim]:
    return {day: Claim(day_start(day), NOW, {0: NOW}) for day in days}


def serving(table: PointerTable) -> dict[date, int]:
    return {day: pointer.generation for day, pointer in table.current().items()}


def test_tokens_rise_also_when_runs_take_them_at_once(table: PointerTable) -> None:
    with ThreadPoolExecutor(4) as runs:
        tokens = [*runs.map(lambda _: table.take_token(), range(8))]

    # A slow node leaves an outcome unknown, and the token of such an attempt is skipped.
    assert len({*tokens}) == 8
    assert min(tokens) >= 1 and table.take_token() > max(tokens)


@pytest.mark.parametrize("error", LOST_ANSWERS, ids=["client", "coordinator", "unknown"])
def test_token_of_a_lost_answer_is_never_handed_out_again(
    table: PointerTable, session: Session, error: Exception
) -> None:
    losing = LosingOneAnswer(session, error)

    first = PointerTable(losing, table.family).take_token()

    assert (losing.lost, first, table.take_token()) == (1, 2, 3)


def test_flip_publishes_all_its_days_at_once_and_leaves_the_others(table: PointerTable) -> None:
    table.flip(claims(MONDAY, TUESDAY), generation(table, table.take_token()))
    table.flip(claims(TUESDAY), generation(table, table.take_token(), pinned=11))

    found = table.current()

    assert {day: (pointer.generation, pointer.pinned) for day, pointer in found.items()} == {
        MONDAY: (1, {0: 10}),
        TUESDAY: (2, {0: 11}),
    }
    assert found[MONDAY].through == {0: NOW} and (
        found[MONDAY].covered_from,
        found[MONDAY].covered_until,
    ) == (day_start(MONDAY), NOW)


def test_each_day_of_a_flip_has_its_own_claim(table: PointerTable) -> None:
    noon = day_start(TUESDAY).replace(hour=12)

    table.flip(
        claims(MONDAY) | {TUESDAY: Claim(noon, noon, {0: noon})},
        generation(table, table.take_token()),
    )

    found = table.current()
    assert (
        found[MONDAY].covered_until,
        found[TUESDAY].covered_from,
        found[TUESDAY].covered_until,
    ) == (NOW, noon, noon)


def test_row_without_the_start_of_its_coverage_covers_its_day_from_the_beginning(
    table: PointerTable, session: Session
) -> None:
    table.flip(claims(MONDAY), generation(table, table.take_token()))
    session.execute(
        "DELETE covered_from FROM batch_pointer WHERE family = %s AND day = %s IF EXISTS",
        [table.family, MONDAY],
    )

    assert table.current()[MONDAY].covered_from == day_start(MONDAY)


def test_run_of_an_older_definition_does_not_replace_a_newer_one(table: PointerTable) -> None:
    table.flip(claims(MONDAY), replace(generation(table, table.take_token()), epochs=Epochs(2)))

    with pytest.raises(
        PublicationRefused, match="served by definition epoch 2, this run computes epoch 1"
    ):
        table.flip(claims(MONDAY), generation(table, table.take_token()))


def test_run_that_took_its_token_earlier_cannot_publish_after_a_later_one(
    table: PointerTable,
) -> None:
    early, late = table.take_token(), table.take_token()
    table.flip(claims(MONDAY), generation(table, late, pinned=10))

    with pytest.raises(PublicationRefused, match="other runs have published all of its days"):
        table.flip(claims(MONDAY), generation(table, early, pinned=12))

    assert serving(table) == {MONDAY: late}


def test_later_run_with_older_offsets_cannot_publish(table: PointerTable) -> None:
    table.flip(claims(MONDAY), generation(table, table.take_token(), pinned=10))

    with pytest.raises(PublicationRefused, match="other runs have published all of its days"):
        table.flip(claims(MONDAY), generation(table, table.take_token(), pinned=9))

    assert serving(table) == {MONDAY: 1}


def test_run_whose_rows_were_compared_with_others_leaves_that_day_out(table: PointerTable) -> None:
    table.flip(claims(MONDAY, TUESDAY), generation(table, table.take_token()))
    slow = generation(table, table.take_token())
    table.flip(claims(TUESDAY), generation(table, table.take_token()))

    skipped = table.flip(claims(MONDAY, TUESDAY), slow)

    assert (skipped, serving(table)) == ([TUESDAY], {MONDAY: 2, TUESDAY: 3})
    assert table.published_days(2, [MONDAY, TUESDAY]) == {MONDAY}


def test_runs_that_flip_at_once_leave_one_of_them_on_all_days(table: PointerTable) -> None:
    tokens = [table.take_token() for _ in range(4)]

    def attempt(token: int) -> str:
        try:
            table.flip(claims(MONDAY, TUESDAY), generation(table, token))
        except PublicationRefused:
            return "refused"
        return "published"

    with ThreadPoolExecutor(4) as runs:
        outcomes = [*runs.map(attempt, tokens)]

    published = [token for token, said in zip(tokens, outcomes, strict=True) if said == "published"]
    assert serving(table) == dict.fromkeys((MONDAY, TUESDAY), published[-1])


@pytest.mark.parametrize("applied", [True, False], ids=["applied", "not applied"])
@pytest.mark.parametrize("error", LOST_ANSWERS, ids=["client", "coordinator", "unknown"])
def test_flip_whose_answer_was_lost_is_resolved_by_reading_ones_own_token(
    table: PointerTable, session: Session, error: Exception, applied: bool
) -> None:
    token = table.take_token()
    losing = LosingOneAnswer(session, error, applied=applied)

    PointerTable(losing, table.family).flip(claims(MONDAY), generation(table, token))

    assert (losing.lost, serving(table)) == (1, {MONDAY: token})


def test_flip_of_whole_years_is_one_transaction(table: PointerTable) -> None:
    days = [date.fromordinal(MONDAY.toordinal() + i) for i in range(800)]
    four = replace(generation(table, table.take_token()), pinned=dict.fromkeys(range(4), 10**9))
    whole = {
        day: replace(claim, through=dict.fromkeys(range(4), NOW))
        for day, claim in claims(*days).items()
    }

    table.flip(whole, four)

    assert serving(table) == dict.fromkeys(days, 1)


def history(session: Session, table: PointerTable, day: date = MONDAY) -> list[int]:
    rows = session.execute(
        "SELECT generation FROM batch_pointer_history WHERE family = %s AND day = %s",
        [table.family, day],
    )
    return [row.generation for row in rows]


def test_every_flip_is_kept_in_the_history_newest_first(
    table: PointerTable, session: Session
) -> None:
    for _ in range(3):
        table.flip(claims(MONDAY), generation(table, table.take_token()))

    assert history(session, table) == [3, 2, 1]


class Crash(Exception):
    """Stands for the death of a run."""


def crash_after_flip(table: PointerTable, *days: date) -> None:
    """Publish the days by a run that dies before it writes its history."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pointer, "write_rows", raise_crash)
        with pytest.raises(Crash):
            table.flip(claims(*days), generation(table, table.take_token()))


def raise_crash(*_arguments: object) -> None:
    raise Crash


def test_history_that_a_crash_left_out_is_made_good_by_the_next_run(
    table: PointerTable, session: Session
) -> None:
    crash_after_flip(table, MONDAY)
    assert history(session, table) == []

    table.record_history()
    table.record_history()

    assert history(session, table) == [1]


def test_flip_after_a_crash_also_records_days_that_it_does_not_replace(
    table: PointerTable, session: Session
) -> None:
    crash_after_flip(table, MONDAY, TUESDAY)

    table.flip(claims(TUESDAY), generation(table, table.take_token()))
    table.record_history()

    assert history(session, table) == [1] and history(session, table, TUESDAY) == [2, 1]


def test_recorded_history_is_not_written_again(
    table: PointerTable, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.flip(claims(MONDAY), generation(table, table.take_token()))

    monkeypatch.setattr(pointer, "write_rows", raise_crash)
    table.record_history()

    assert history(session, table) == [1]


@pytest.mark.parametrize("error", LOST_ANSWERS, ids=["client", "coordinator", "unknown"])
def test_history_says_the_same_as_the_pointer_after_a_lost_answer(
    table: PointerTable, session: Session, error: Exception
) -> None:
    losing = LosingOneAnswer(session, error)

    PointerTable(losing, table.family).flip(claims(MONDAY), generation(table, table.take_token()))

    columns = (
        "generation, epoch, table_version, covered_from, covered_until, flipped_at, pinned, through"
    )
    rows = [
        session.execute(
            f"SELECT {columns} FROM {name} WHERE family = %s AND day = %s", [table.family, MONDAY]
        ).one()
        for name in ("batch_pointer", "batch_pointer_history")
    ]
    assert tuple(rows[0]) == tuple(rows[1]) and rows[0].flipped_at.replace(tzinfo=UTC) == NOW


def test_days_of_a_run_are_known_once_it_has_flipped(table: PointerTable) -> None:
    first, never, second = (table.take_token() for _ in range(3))
    table.flip(claims(MONDAY, TUESDAY), generation(table, first))
    table.flip(claims(MONDAY), generation(table, second))

    found = [table.published_days(token, [MONDAY, TUESDAY]) for token in (first, never, second)]

    assert found == [{MONDAY, TUESDAY}, set(), {MONDAY}]
