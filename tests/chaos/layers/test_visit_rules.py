"""The visit rules of a store change in the middle of a week, after some of their days have been
counted; drivers die before and after. Both layers are held against a reading of its own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import psutil
import pytest
import yaml
from cassandra.cluster import Session

from runtime.connect import cassandra_session
from tests.support.oracles.plain_visits import PlainCell, PlainRules, VisitCell
from tests.support.stack.loop import SERVICES, Loop, jvm_of, running_loop
from tests.support.stack.tables import visit_rows
from tests.support.twin.twin import DAY_STARTS, TwinStory

MONDAY = date(2026, 3, 2)
# Of the week's days the rules change with the fourth; that is decided on the fifth.
CHANGE, DECIDED = MONDAY + timedelta(days=3), MONDAY + timedelta(days=4)
CHANGED = "twin-2"
STRICT = PlainRules(enter_dbm=-62, stay_dbm=-70, gap=8, least_stay=3, static=90)
VISITS = {
    **{"enter_dbm": -62, "stay_dbm": -70, "gap_minutes": 8, "min_stay_minutes": 3},
    **{"static_minutes": 90, "revision": 1},
}
KILLS = 2
Cells = Mapping[VisitCell, PlainCell]


@dataclass(frozen=True)
class Week:
    """Stores over a week, and their stack."""

    story: TwinStory
    loop: Loop
    stores: Path

    def noon(self, day: date) -> float:
        """Noon of the changed store's day, in seconds since 1970."""
        zone = self.story.plans[1].zone
        return datetime(day.year, day.month, day.day, 12, tzinfo=zone).timestamp()

    def rules_of(self, store: str, at: datetime) -> PlainRules:
        """Those of the store's day, as everybody has them who knows of the change."""
        plan = next(one for one in self.story.plans if one.store_id == store)
        since = timedelta(hours=DAY_STARTS.hour) if store == "twin-2" else timedelta(0)
        day = (at.astimezone(plan.zone).replace(tzinfo=None) - since).date()
        return STRICT if store == CHANGED and day >= CHANGE else PlainRules()

    def send(self, since: float, until: float) -> None:
        """What arrives between the instants, in lots; a driver dies after each but the last."""
        lots = KILLS + 1
        for number in range(lots):
            step = (until - since) / lots
            begins = since + number * step
            self.story.send(self.loop.settings, begins, begins + step)
            if number < KILLS:
                self.kill_driver()
        self.loop.catch_up()

    def kill_driver(self) -> None:
        """Its Python and its JVM, in the middle of something; then another is started."""
        python = psutil.Process(self.loop.pid("speed"))
        time.sleep(2)
        for one in (jvm_of(python.pid), python):
            one.send_signal(signal.SIGKILL)
        psutil.wait_procs([python], timeout=30)
        self.loop.up("speed")

    def change_rules(self) -> None:
        """In the registry, and known to who reads it when it starts."""
        stores = yaml.safe_load(self.stores.read_text("utf-8"))
        stores[CHANGED]["changes"] = {str(CHANGE): {"visits": VISITS}}
        new = self.stores.with_name("new.yaml")
        new.write_text(yaml.safe_dump(stores), "utf-8")
        self.loop.json("stores", "import", str(new))
        self.loop.down("speed")
        self.loop.up("speed")


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Week]:
    story = TwinStory(2, 7, (MONDAY,), passers=150)
    stores = story.stores_file(tmp_path_factory.mktemp("stores"))
    overrides = {
        "TALLY_STORES_FILE": str(stores),
        "TALLY_RAW_RETENTION_SECONDS": str(5 * 366 * 86_400),
        "TALLY_KEYSPACE": "test_visit_rules",
    }
    with running_loop(tmp_path_factory.mktemp("week"), *SERVICES, overrides=overrides) as loop:
        yield Week(story, loop, stores)


@pytest.fixture(scope="module")
def session(week: Week) -> Iterator[Session]:
    with cassandra_session(week.loop.settings) as opened:
        yield opened


def differing(held: Cells, expected: Cells) -> set[VisitCell]:
    """The cells that are not equal; one that was planted wrong has to be among them."""
    planted = max(expected)
    wrong = {**held, planted: expected[planted]._replace(visits=-1)}
    assert planted in {one for one in {*wrong, *expected} if wrong.get(one) != expected.get(one)}
    return {one for one in {*held, *expected} if held.get(one) != expected.get(one)}


def test_both_layers_follow_a_change_of_rules_and_without_an_epoch_they_do_not(
    week: Week, session: Session
) -> None:
    loop, story, changed_at = week.loop, week.story, week.noon(DECIDED)
    week.send(0, changed_at)
    loop.json("rebuild", "--dirty")
    before = visit_rows(session, "batch_wifi_15min")

    week.change_rules()
    command = [sys.executable, "-m", "tests.controls.layers.unrevised_rebuild", "--dirty", "--json"]
    subprocess.run(command, env={**os.environ, **loop.environment}, check=True)
    known = week.story.visits(is_over=True, rules_of=week.rules_of, until=changed_at)
    found = visit_rows(session, "batch_wifi_15min")
    over = {cell: one for cell, one in known.items() if cell in found or cell in before}
    stale = differing(found, over)
    print(f"without an epoch: {len(over):,} cells compared, {len(stale)} differ")
    assert stale and {store for store, *_ in stale} == {CHANGED}

    week.kill_driver()
    week.send(changed_at, week.noon(MONDAY + timedelta(days=9)))
    running = {cell: one for cell, one in visit_rows(session, "wifi_15min").items() if is_new(cell)}
    expected = story.visits(is_over=False, rules_of=week.rules_of)
    should = {cell: one for cell, one in expected.items() if is_new(cell)}
    print(f"speed: {len(should):,} cells compared")
    assert differing(running, should) == set() and len(should) > 100

    loop.json("rebuild", "--dirty")
    held = visit_rows(session, "batch_wifi_15min")
    final = story.visits(is_over=True, rules_of=week.rules_of)
    # Of a store's last day nothing is written before it is over.
    written = {cell: one for cell, one in final.items() if cell in held or not is_last(cell)}
    print(f"batch: {len(written):,} cells compared")
    assert differing(held, written) == set() and len(written) > 300
    assert loop.json("audit", "--against", "master")["ok"] is True


def is_new(cell: VisitCell) -> bool:
    """Whether it is of a key period that ran when the rules changed, or has begun since."""
    return cell[1] >= datetime(DECIDED.year, DECIDED.month, DECIDED.day, 4, tzinfo=UTC)


def is_last(cell: VisitCell) -> bool:
    """Whether it may be of a key period that is not over."""
    last = MONDAY + timedelta(days=6)
    return cell[1] >= datetime(last.year, last.month, last.day, tzinfo=UTC)
