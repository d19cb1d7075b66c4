"""The whole year: a backlog on a stopped normaliser, readers meanwhile, a rebuild, the audit, and a planted wrong cell."""

from collections.abc import Iterator
from datetime import UTC, datetime

import httpx
import pytest
from cassandra.cluster import Session

from ops.oracle.complete_journey import stores_in, window_totals
from tally.connect import cassandra_session
from tests.e2e.loop import Loop, running_loop
from tests.e2e.prefixes import prefix_values
from tests.e2e.readers import METRICS, Readings, reading

RECEIPTS = 155_848
CENTS = 459_603_958
SPAN = (datetime(2017, 1, 1, tzinfo=UTC), datetime(2018, 1, 2, tzinfo=UTC))
REPLAY = ("--duplicates", "0.02", "--disorder", "5m", "--late", "0.01", "--late-by", "1d", "--conflicts", "20", "--bad", "12")


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    with running_loop(tmp_path_factory.mktemp("year")) as running:
        yield running


@pytest.fixture(scope="module")
def session(loop: Loop) -> Iterator[Session]:
    with cassandra_session(loop.settings) as opened:
        yield opened


@pytest.fixture(scope="module")
def backlog(loop: Loop) -> dict[str, int]:
    """The whole year sent while the normaliser is down; the replay's result."""
    loop.down("normaliser")
    return loop.replay(*REPLAY)


@pytest.fixture(scope="module")
def speed_readings(loop: Loop, backlog: dict[str, int]) -> Readings:
    """What 4 readers of 20 stores were told while the backlog went through the speed layer."""
    stores = stores_in(window_totals())[::20][:20]
    with reading(loop.settings.api, stores, SPAN) as readings:
        loop.up("normaliser")
        loop.catch_up()
    return readings


@pytest.fixture(scope="module")
def ledger_before(loop: Loop, speed_readings: Readings) -> dict[str, int]:
    return dict(loop.json("audit", "--only", "ledger")["beside"])


@pytest.fixture(scope="module")
def batch_readings(loop: Loop, ledger_before: dict[str, int]) -> Readings:
    """What 4 readers were told while a rebuild computed, checked and flipped, until both sides made 10,000 answers."""
    stores = stores_in(window_totals())[::20][:20]
    with reading(loop.settings.api, stores, SPAN) as readings:
        loop.json("rebuild", "--full")
    return readings


def test_backlog_of_a_stopped_normaliser_makes_no_honest_receipt_late(backlog: dict[str, int], ledger_before: dict[str, int]) -> None:
    share, deliberate = ledger_before["late_pending"] / RECEIPTS, backlog["late"] / RECEIPTS

    print(f"late_pending {ledger_before['late_pending']:,} of {RECEIPTS:,} = {share:.4%}; sent late {backlog['late']:,} = {deliberate:.4%}")

    assert share <= deliberate + 0.001


def test_every_answer_meanwhile_is_a_prefix_of_what_was_sent(loop: Loop, speed_readings: Readings, batch_readings: Readings) -> None:
    allowed = prefix_values(loop.settings)
    told = speed_readings.told | batch_readings.told

    wrong = [cell for cell in told if cell[3] not in {seen[METRICS.index(cell[2])] for seen in allowed.get(cell[:2], {(0, 0)})}]

    answers, cells = speed_readings.answers + batch_readings.answers, speed_readings.cells + batch_readings.cells
    print(f"{answers:,} answers, {cells:,} cells, {len(told):,} distinct values, {len(wrong)} that are no prefix")
    assert (wrong, speed_readings.failures, batch_readings.failures) == ([], [], [])
    assert answers >= 10_000


def test_speed_rows_answer_before_the_rebuild_and_batch_rows_after_it(
    loop: Loop, speed_readings: Readings, batch_readings: Readings
) -> None:
    asked = {"store": "367", "from": "2017-03-01", "to": "2017-03-08", "grain": "15m"}

    answer = httpx.get(f"http://{loop.settings.api}/v1/metrics/revenue", params=asked).json()

    assert speed_readings.sources == {"speed"}
    assert batch_readings.sources >= {"speed"}
    assert ({row["source"] for row in answer["rows"]}, answer["complete"]) == ({"batch"}, True)


def test_audit_of_the_whole_year_holds(loop: Loop, batch_readings: Readings) -> None:
    found = loop.json("audit")

    print({name: found["oracle"][name] for name in ("windows", "equal", "receipts", "minor")}, found["http"]["equal"])
    assert (found["ok"], found["oracle"]["receipts"], found["oracle"]["minor"]) == (True, RECEIPTS, CENTS)
    assert (found["oracle"]["equal"], found["http"]["equal"]) == (found["oracle"]["windows"], 1000)


def test_one_planted_wrong_cell_makes_the_audit_exit_1(loop: Loop, batch_readings: Readings, session: Session) -> None:
    row = session.execute("SELECT * FROM batch_sales_15min LIMIT 1").one()
    key = [row.store_id, row.day, row.generation, row.window_start, row.currency, row.dim, row.dim_value]
    change = session.prepare(
        "UPDATE batch_sales_15min SET gross_minor = ? WHERE store_id = ? AND day = ? AND generation = ? "
        "AND window_start = ? AND currency = ? AND dim = ? AND dim_value = ?"
    )
    session.execute(change, [row.gross_minor + 1, *key])

    found = loop.json("audit", "--only", "oracle", "--http", "0", code=1)

    session.execute(change, [row.gross_minor, *key])
    differences = [(cell["store"], cell["metric"], cell["got"] - cell["expected"]) for cell in found["oracle"]["differences"]]
    print(f"compared {found['oracle']['windows']:,} windows, found {differences}")
    assert differences == [(row.store_id, "revenue", 1)]
