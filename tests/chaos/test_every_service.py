"""Every service killed and frozen in turn under 200 receipts a second, four readers and rebuilds all the time: nobody types anything."""

import random
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psutil
import pytest

from ops.stack import catalogue
from tally.connect import cassandra_session
from tests.chaos.faults import Outcome, Rebuilds, rebuild_suffered, strike, suffered, table
from tests.loop import Loop, running_loop, wait_until
from tests.prefixes import committed_steps, judged
from tests.readers import Questions, Readings, reading
from tests.support.ledger import ledger_totals
from tests.support.live_load import STORES, LiveLoad
from tests.support.tables import batch_rows, speed_rows

SEED = 18
FAULTS = ("SIGKILL", "SIGSTOP")


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    with running_loop(tmp_path_factory.mktemp("every"), *catalogue.SERVICES) as running:
        yield running


@pytest.fixture(scope="module")
def matrix() -> list[tuple[str, str]]:
    """Every (service, fault), and those of a rebuild that runs, in a seeded order."""
    faults = [(service, fault) for service in [*catalogue.SERVICES, "rebuild"] for fault in FAULTS]
    random.Random(SEED).shuffle(faults)
    return faults


@pytest.fixture(scope="module")
def suffering(loop: Loop, matrix: list[tuple[str, str]]) -> tuple[list[Outcome], LiveLoad, Readings, Rebuilds]:
    """All faults, one after the other, under load; everything read by both layers and rebuilt once more at the end."""
    load, rebuilds, outcomes = LiveLoad(loop.settings.gateway), Rebuilds(loop), []
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    questions = Questions(STORES, (today - timedelta(days=1), today + timedelta(days=2)), days=1)
    with reading(loop.settings.api, questions, readers=4, pause_seconds=0.1) as readings, load.selling(), rebuilds.repeated():
        wait_until(lambda: rebuilds.codes[0] > 0, 180, "the first rebuild has succeeded")
        for service, fault in matrix:
            done = rebuild_suffered(loop, load, rebuilds, fault) if service == "rebuild" else suffered(loop, load, service, fault)
            print(done, flush=True)
            outcomes.append(done)
    loop.catch_up()
    loop.json("rebuild", "--dirty")
    return outcomes, load, readings, rebuilds


Suffering = tuple[list[Outcome], LiveLoad, Readings, Rebuilds]


def test_everything_comes_back_by_itself(loop: Loop, matrix: list[tuple[str, str]], suffering: Suffering) -> None:
    outcomes, load, readings, rebuilds = suffering

    print(table(outcomes))
    print(f"{load.receipts:,} receipts acknowledged, {load.client.repeats} posts sent again; rebuilds by exit code {dict(rebuilds.codes)}")
    print(f"{readings.answers:,} answers, {readings.unavailable} times none")
    assert [(outcome.service, outcome.fault) for outcome in outcomes] == matrix
    assert {state["state"] for state in loop.status().values()} == {"running"}


def test_no_answer_fell_or_was_no_prefix(loop: Loop, suffering: Suffering) -> None:
    readings = suffering[2]

    verdict = judged(committed_steps(loop.settings), readings)

    print(verdict)
    assert (verdict.no_prefix, verdict.falls, readings.failures) == ([], [], [])
    assert verdict.holds and readings.answers > 1000


def test_both_layers_equal_what_was_acknowledged_and_the_ledger_adds_up(loop: Loop, suffering: Suffering) -> None:
    load = suffering[1]
    with cassandra_session(loop.settings) as session:
        held = speed_rows(session, "sales"), batch_rows(session, "sales")

    totals = ledger_totals(loop)

    assert held == (load.expected(), load.expected())
    assert (totals["counted"], totals["conflict"], totals["unreadable"], totals["dead_letter"]) == (load.receipts, 0, 0, 0)


def test_service_that_cannot_start_is_failing_with_its_reason_until_it_can(loop: Loop, suffering: Suffering) -> None:
    host, port = loop.settings.gateway.rsplit(":", 1)
    pid = loop.pid("gateway")
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        strike(pid, "SIGKILL")
        wait_until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE, 10, "the gateway has ended")
        squatter.bind((host, int(port)))
        squatter.listen()
        wait_until(lambda: loop.status()["gateway"]["state"] == "failing", 240, "the gateway is given up for now")
        state = loop.status()["gateway"]
    print(state)

    assert state["reason"] and state["since"] and "next_try" in state
    wait_until(lambda: loop.status()["gateway"]["state"] == "running", 300, "the gateway runs once its port is free")
