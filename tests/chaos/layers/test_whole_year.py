"""The whole year of real receipts through the whole loop, in small micro-batches: a backlog, 10,000
answers read meanwhile, a rebuild, the audit, and a planted wrong cell."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from cassandra.cluster import Session

from ops.local.demo.run import DISTURBANCES
from ops.oracle import stores_in, window_totals
from runtime.connect import cassandra_session
from tests.support import http
from tests.support.clients.readers import Questions, Readings, reading
from tests.support.oracles.prefixes import committed_steps, judged
from tests.support.stack.loop import Loop, running_loop

SPAN = (datetime(2017, 1, 1, tzinfo=UTC), datetime(2018, 1, 2, tzinfo=UTC))
# Windows that the audit asks of the API, and answers that readers must have had.
WINDOWS_ASKED, ANSWERS = 1_000, 10_000
MICRO_BATCH_RECORDS = 1_000


class TestWholeYear:
    @pytest.fixture(scope="class")
    @classmethod
    def loop(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
        overrides = {"TALLY_MICRO_BATCH_RECORDS": str(MICRO_BATCH_RECORDS)}
        with running_loop(tmp_path_factory.mktemp("loop"), overrides=overrides) as running:
            yield running

    @pytest.fixture(scope="class")
    @classmethod
    def session(cls, loop: Loop) -> Iterator[Session]:
        with cassandra_session(loop.settings) as opened:
            yield opened

    @pytest.fixture(scope="class")
    @classmethod
    def stores(cls) -> list[str]:
        """20 stores, from the busiest to the quietest."""
        return stores_in(window_totals())[::5][:20]

    @pytest.fixture(scope="class")
    @classmethod
    def backlog(cls, loop: Loop) -> dict[str, int]:
        """Everything sent while the normaliser is down; the replay's result."""
        loop.down("normaliser")
        return loop.replay(*DISTURBANCES)

    @pytest.fixture(scope="class")
    @classmethod
    def speed_readings(cls, loop: Loop, backlog: dict[str, int], stores: list[str]) -> Readings:
        """What 4 readers of 20 stores were told while the backlog went through the speed layer."""
        with reading(loop.settings.api, Questions(stores, SPAN)) as readings:
            loop.up("normaliser")
            loop.catch_up()
        return readings

    @pytest.fixture(scope="class")
    @classmethod
    def ledger_before(cls, loop: Loop, speed_readings: Readings) -> dict[str, int]:
        return dict(loop.json("audit", "--only", "ledger")["beside"])

    @pytest.fixture(scope="class")
    @classmethod
    def batch_readings(
        cls, loop: Loop, ledger_before: dict[str, int], stores: list[str]
    ) -> Readings:
        """What 4 readers were told while a rebuild computed, checked and flipped."""
        with reading(loop.settings.api, Questions(stores, SPAN)) as readings:
            loop.json("rebuild", "--full")
        return readings

    def test_backlog_of_a_stopped_normaliser_makes_no_honest_receipt_late(
        self, loop: Loop, backlog: dict[str, int], ledger_before: dict[str, int]
    ) -> None:
        receipts, pending, batches = (
            backlog["receipts"],
            ledger_before["late_pending"],
            loop.micro_batches(),
        )

        largest = max(batch["input_rows"] for batch in batches)
        print(
            f"late_pending {pending:,} of {receipts:,} = {pending / receipts:.4%}; sent late"
            f" {backlog['late'] / receipts:.4%}"
        )
        print(f"{len(batches):,} micro-batches, the largest of {largest:,} records")
        # Spark rounds the share of each partition up.
        assert largest < MICRO_BATCH_RECORDS + 2 * loop.settings.partitions

        assert pending / receipts <= backlog["late"] / receipts + 0.001

    def test_every_answer_meanwhile_is_a_prefix_of_what_was_sent_and_none_falls(
        self, loop: Loop, speed_readings: Readings, batch_readings: Readings
    ) -> None:
        verdict = judged(committed_steps(loop.settings), speed_readings, batch_readings)

        answers, cells = (
            speed_readings.answers + batch_readings.answers,
            speed_readings.cells + batch_readings.cells,
        )
        print(f"{answers:,} answers, {cells:,} cells; {verdict}")
        assert (
            verdict.no_prefix,
            verdict.falls,
            speed_readings.failures,
            batch_readings.failures,
        ) == ([], [], [], [])
        assert (speed_readings.unavailable + batch_readings.unavailable, verdict.holds) == (0, True)
        assert answers >= ANSWERS

    def test_speed_rows_answer_before_the_rebuild_and_batch_rows_after_it(
        self, loop: Loop, speed_readings: Readings, batch_readings: Readings
    ) -> None:
        asked = {"store": "367", "from": "2017-01-04", "to": "2017-01-10", "grain": "15m"}

        answer = http.get(f"http://{loop.settings.api}/v1/metrics/revenue", params=asked).json()

        assert (speed_readings.sources, "speed" in batch_readings.sources) == ({"speed"}, True)
        assert ({row["source"] for row in answer["rows"]}, answer["complete"]) == ({"batch"}, True)

    def test_audit_holds(self, loop: Loop, batch_readings: Readings) -> None:
        expected = window_totals().values()

        found = loop.json("audit", "--http", str(WINDOWS_ASKED))

        print(
            {name: found["oracle"][name] for name in ("windows", "equal", "receipts", "minor")},
            "by HTTP",
            found["http"]["equal"],
        )
        sums = (sum(cell.receipts for cell in expected), sum(cell.minor for cell in expected))
        assert (found["ok"], found["oracle"]["receipts"], found["oracle"]["minor"]) == (True, *sums)
        assert (found["oracle"]["equal"], found["http"]["equal"]) == (
            found["oracle"]["windows"],
            WINDOWS_ASKED,
        )

    def test_one_planted_wrong_cell_makes_the_audit_exit_1(
        self, loop: Loop, batch_readings: Readings, session: Session
    ) -> None:
        row = session.execute("SELECT * FROM batch_sales_15min LIMIT 1").one()
        key = [
            row.store_id,
            row.day,
            row.generation,
            row.window_start,
            row.currency,
            row.dim,
            row.dim_value,
        ]
        change = session.prepare(
            "UPDATE batch_sales_15min SET gross_minor = ? WHERE store_id = ? AND day = ? AND"
            " generation = ? AND window_start = ? AND currency = ? AND dim = ? AND dim_value = ?"
        )
        session.execute(change, [row.gross_minor + 1, *key])

        found = loop.json("audit", "--only", "oracle", "--http", "0", code=1)

        session.execute(change, [row.gross_minor, *key])
        differences = [
            (cell["store"], cell["metric"], cell["got"] - cell["expected"])
            for cell in found["oracle"]["differences"]
        ]
        print(f"compared {found['oracle']['windows']:,} windows, found {differences}")
        assert differences == [(row.store_id, "revenue", 1)]
