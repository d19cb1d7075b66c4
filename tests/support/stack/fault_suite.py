"""Services killed and frozen in turn under 200 receipts a second, four readers and rebuilds all
the time: nobody types anything."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from cassandra.cluster import Session

from tests.support.clients.live_load import STORES, LiveLoad
from tests.support.clients.readers import Questions, Readings, reading
from tests.support.oracles.ledger import ledger_totals
from tests.support.oracles.plain_oracle import Cell, Parts
from tests.support.oracles.prefixes import committed_steps, judged
from tests.support.stack.faults import Outcome, Rebuilds, rebuild_suffered, suffered, table
from tests.support.stack.loop import Loop, wait_until
from tests.support.stack.tables import batch_rows, speed_rows

SEED = 18
Suffering = tuple[list[Outcome], LiveLoad, Readings, Rebuilds]


class FaultSuite:
    """Tests that a subclass runs with its (service, fault) pairs; the service `rebuild` is a
    rebuild that runs."""

    faults: tuple[tuple[str, str], ...]
    receipts_a_second: int = 200

    @classmethod
    def suffer(cls, loop: Loop, load: LiveLoad, service: str, fault: str) -> Outcome:
        """The fault done to the service, and its end waited for."""
        return suffered(loop, load, service, fault)

    @pytest.fixture(scope="class")
    @classmethod
    def before(cls, loop: Loop) -> Counter[str]:
        """The ledger before; empty while there is no master dataset."""
        return ledger_totals(loop) if loop.settings.master_path.exists() else Counter()

    @pytest.fixture(scope="class")
    @classmethod
    def suffering(cls, loop: Loop, before: Counter[str]) -> Suffering:
        """All faults in a seeded order, one after the other, under load; everything read and
        rebuilt once more at the end."""
        load = LiveLoad(loop.settings.gateway, cls.receipts_a_second)
        rebuilds, outcomes = Rebuilds(loop), []
        today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        questions = Questions(
            STORES, (today - timedelta(days=1), today + timedelta(days=2)), days=1
        )
        with (
            reading(loop.settings.api, questions, readers=4, pause_seconds=0.5) as readings,
            load.selling(),
            rebuilds.repeated(),
        ):
            wait_until(lambda: rebuilds.codes[0] > 0, 900, "the first rebuild has succeeded")
            for service, fault in random.Random(SEED).sample(cls.faults, len(cls.faults)):
                done = (
                    rebuild_suffered(loop, load, rebuilds, fault)
                    if service == "rebuild"
                    else cls.suffer(loop, load, service, fault)
                )
                print(done, flush=True)
                outcomes.append(done)
        loop.catch_up()
        loop.json("rebuild", "--dirty")
        return outcomes, load, readings, rebuilds

    def test_everything_comes_back_by_itself(self, loop: Loop, suffering: Suffering) -> None:
        outcomes, load, readings, rebuilds = suffering

        states = loop.status()

        print(table(outcomes))
        print(
            f"{load.receipts:,} receipts acknowledged, {load.client.repeats} posts sent again;"
            f" rebuilds by exit code {dict(rebuilds.codes)}"
        )
        print(f"{readings.answers:,} answers, {readings.unavailable} times none")
        assert sorted((outcome.service, outcome.fault) for outcome in outcomes) == sorted(
            self.faults
        )
        assert {states[service]["state"] for service, _ in self.faults if service in states} <= {
            "running"
        }

    def test_no_answer_fell_or_was_no_prefix(self, loop: Loop, suffering: Suffering) -> None:
        readings = suffering[2]

        verdict = judged(committed_steps(loop.settings, STORES), readings)

        print(verdict)
        assert (verdict.no_prefix, verdict.falls, readings.failures) == ([], [], [])
        assert verdict.holds and readings.answers > 100

    def test_both_layers_equal_what_was_acknowledged_and_the_ledger_adds_up(
        self, loop: Loop, suffering: Suffering, session: Session, before: Counter[str]
    ) -> None:
        load = suffering[1]

        totals = ledger_totals(loop)

        expected = load.expected()
        assert (
            of_live_stores(speed_rows(session, "sales")),
            of_live_stores(batch_rows(session, "sales")),
        ) == (expected, expected)
        assert totals["counted"] - before["counted"] == load.receipts
        assert {
            name: totals[name] - before[name] for name in ("conflict", "unreadable", "dead_letter")
        } == {
            "conflict": 0,
            "unreadable": 0,
            "dead_letter": 0,
        }


def of_live_stores(rows: dict[Cell, Parts]) -> dict[Cell, Parts]:
    """The rows of the stores that the load sells in."""
    return {cell: parts for cell, parts in rows.items() if cell[0] in STORES}
