"""Two Spark drivers on one table, an old one resumed, a query begun anew without a checkpoint:
never above the oracle.

The same scenario with one part of the shipped job exchanged (tests/controls) has to fail: that is
what each negative control shows.
"""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from ops.lag import Lag
from runtime.connect import cassandra_session
from tally.time.instants import format_utc
from tests.chaos.layers.dense import DAY, SPAN, STORES, WINDOW, Cell, DenseDay
from tests.chaos.layers.drivers import SpeedDriver, another_driver, resume
from tests.support import http
from tests.support.clients.readers import METRICS, Fall, Questions, Seen, Told, reading
from tests.support.oracles.prefixes import committed_steps, judged, no_prefix, unread
from tests.support.stack.loop import Loop, running_loop, wait_until

# Where the query that begins anew cuts a window: after 30 % of it, so that its tail is longer than
# what the view holds.
CUT = 13.3
CUT_WINDOW = {(store, DAY + int(CUT) * WINDOW) for store in STORES}
END = 20
Start = Callable[..., AbstractContextManager[SpeedDriver]]


@dataclass(frozen=True)
class Findings:
    """What readers were told that is no prefix of the sent events or fell, and the cells that
    differ from the oracle at the end."""

    windows: int
    answers: int
    no_prefix: list[Seen]
    falls: list[Fall]
    wrong_before_rebuild: set[Cell]
    wrong_after_rebuild: set[Cell]

    @property
    def hold(self) -> bool:
        """Whether everything is as promised: before the rebuild only the window that was cut is
        not complete."""
        return (
            self.no_prefix,
            self.falls,
            self.wrong_before_rebuild,
            self.wrong_after_rebuild,
        ) == ([], [], CUT_WINDOW, set())


def scenario(home: Path, module: str = "speed_layer.job") -> Findings:
    """What is found with this job as each of the drivers."""
    with running_loop(
        home / "loop",
        "normaliser",
        "master",
        "api",
        overrides={"TALLY_INGEST_TRIGGER_SECONDS": "1", "TALLY_KEYSPACE": "test_two_drivers"},
    ) as loop:
        found = three_drivers(loop, home, partial(another_driver, loop, module=module))
    print(
        f"{found.answers:,} answers, {len(found.no_prefix)} values that are no prefix,"
        f" {len(found.falls)} falls; of {found.windows:,} windows {len(found.wrong_before_rebuild)}"
        f" differ from the oracle before the rebuild, {len(found.wrong_after_rebuild)} after it"
    )
    return found


def three_drivers(loop: Loop, home: Path, driver: Start) -> Findings:
    """An old driver that is frozen and resumed twice with a second one beside it, then a third
    that begins anew."""
    day = DenseDay(loop.settings)
    with reading(
        loop.settings.api, Questions(STORES, SPAN, days=1), pause_seconds=0.05
    ) as readings:
        two_drivers(loop, day, home, driver)
        with driver(home / "anew", "--starting-offsets", position_of_the_master(loop)) as anew:
            day.send_until(END)
            everything_read_by(loop, anew)
            before = served(loop)
    loop.json("rebuild", "--full")
    after = served(loop)
    assert readings.failures == []
    steps = committed_steps(loop.settings)
    verdict = judged(steps, readings)
    unheard = [*verdict.no_prefix, *no_prefix(steps, unread(before))]
    wrong = cells_of(before ^ day.told), cells_of(after ^ day.told)
    return Findings(len(cells_of(day.told)), readings.answers, unheard, verdict.falls, *wrong)


def two_drivers(loop: Loop, day: DenseDay, home: Path, driver: Start) -> None:
    """Both run, and twice the old one is stopped in a micro-batch until the other has written
    richer rows; then both are dead."""
    with driver(home / "old") as old:
        old_and_second(loop, day, old, driver(home / "second"))


def old_and_second(
    loop: Loop, day: DenseDay, old: SpeedDriver, starting: AbstractContextManager[SpeedDriver]
) -> None:
    """The old one runs; the second is started while it is stopped."""
    day.send_until(3.3)
    everything_read_by(loop, old)
    day.send_until(6.3)
    frozen = old.freeze_in_a_micro_batch()
    with starting as second:
        day.send_until(9.3)
        everything_read_by(loop, second)
        resume(frozen)
        everything_read_by(loop, old)
        day.send_until(11.3)
        frozen = old.freeze_in_a_micro_batch()
        planned, _ = old.micro_batches()
        day.send_until(CUT)
        everything_read_by(loop, second)
        resume(frozen)
        wait_until(
            lambda: old.micro_batches()[1] >= planned,
            60,
            "the resumed driver has written its old micro-batch",
        )
        # Before it reads on: nobody writes those rows again, and nobody starts it again.
        old.kill()


def everything_read_by(loop: Loop, driver: SpeedDriver) -> None:
    """Return when the driver's view holds everything that was sent."""
    wait_until(
        lambda: lag(loop).normaliser == 0 and driver.has_read_all(loop), 120, "everything is read"
    )


def lag(loop: Loop) -> Lag:
    """The lag now."""
    with cassandra_session(loop.settings) as session:
        return loop.lag(session)


def position_of_the_master(loop: Loop) -> str:
    """--starting-offsets: where the master dataset ends once it holds everything, in the middle
    of a window."""
    wait_until(lambda: lag(loop).master == 0, 120, "the master dataset holds everything")
    with cassandra_session(loop.settings) as session:
        rows = session.execute(
            "SELECT partition, until FROM master_position WHERE family = 'sales'"
        )
        return json.dumps({"sales": {str(row.partition): row.until for row in rows}})


def served(loop: Loop) -> set[Told]:
    """What the API says of every window that has an answer other than zero."""
    told = set()
    for store in STORES:
        for metric in METRICS:
            asked = {
                "store": store,
                "from": format_utc(SPAN[0]),
                "to": format_utc(SPAN[1]),
                "grain": "15m",
            }
            answer = http.get(
                f"http://{loop.settings.api}/v1/metrics/{metric}", params=asked, timeout=30
            ).raise_for_status()
            told |= {
                (store, datetime.fromisoformat(row["start"]), metric, row["value"])
                for row in answer.json()["rows"]
                if row["value"]
            }
    return told


def cells_of(told: set[Told]) -> set[Cell]:
    """The windows that the values are of."""
    return {(store, start) for store, start, _, _ in told}


def test_two_drivers_one_resumed_and_one_begun_anew_never_serve_above_the_oracle(
    tmp_path: Path,
) -> None:
    assert scenario(tmp_path).hold


def test_negative_control_increments_count_twice(tmp_path: Path) -> None:
    found = scenario(tmp_path, "tests.controls.layers.adding")

    assert (found.hold, bool(found.no_prefix)) == (False, True)


def test_negative_control_wall_clock_lets_the_resumed_driver_lower_what_was_served(
    tmp_path: Path,
) -> None:
    found = scenario(tmp_path, "tests.controls.layers.wall_clock")

    assert (found.hold, bool(found.wrong_before_rebuild - CUT_WINDOW)) == (False, True)


def test_negative_control_without_a_floor_the_tail_of_a_window_is_served_as_its_whole(
    tmp_path: Path,
) -> None:
    found = scenario(tmp_path, "tests.controls.layers.no_floor")

    assert (found.hold, {(cell.store, cell.start) for cell in found.no_prefix}) == (
        False,
        CUT_WINDOW,
    )
