"""Twin stores through the whole loop, over both nights on which clocks are set: duplicates,
disorder, an outage with all of it pushed again, clocks a day fast and a week slow.

What sensors sent is known to the last message, and so is what happened. `--twin 5x30` for a month.
"""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from cassandra.cluster import Session

from ingest.senders.twin.people import TwinStore
from runtime.connect import cassandra_session
from runtime.registry.sources import FAMILIES
from tests.support import http
from tests.support.oracles.plain_visits import visits_of
from tests.support.stack.loop import SERVICES, Loop, running_loop
from tests.support.stack.tables import batch_rows, speed_rows, visit_rows
from tests.support.twin.twin import TwinStory, truths
from tests.support.twin.twin_levels import crossings, inside

ONES = {"sales": "pos", "traffic": "traffic"}
SPRING, AUTUMN = date(2026, 3, 28), date(2026, 10, 24)
# Of so many days both are there, of more the days around the first.
FEW = 4
METRICS = ("transactions", "visitors_in", "in_store_traffic")
LEVELS = [("occupancy", "15m"), ("occupancy_residue", "1d")]
# Of phones that are heard once a minute, in percent.
MAX_OFF = {"visits": 5.0, "stay in seconds": 10.0}
SPARSE_SECONDS = 240.0
CROWD = 6_000
# The time of arrival is that of the story: the ledger would else miss what is deleted meanwhile.
KEPT_SECONDS = str(5 * 366 * 86_400)


@dataclass
class Sent:
    """The story, and time.monotonic() when it had been sent."""

    story: TwinStory
    at: float


@pytest.fixture(scope="module")
def story(request: pytest.FixtureRequest) -> TwinStory:
    stores, days = map(int, request.config.getoption("--twin").split("x"))
    firsts = (SPRING, AUTUMN) if days <= FEW else (SPRING - timedelta(days // 2),)
    # In a month more devices come in a week than a sketch holds.
    crowd = None if days <= FEW else CROWD
    return TwinStory(stores, days, firsts, passers=600, crowd=crowd)


@pytest.fixture(scope="module")
def loop(story: TwinStory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    home = tmp_path_factory.mktemp("twin")
    stores = story.stores_file(tmp_path_factory.mktemp("stores"))
    overrides = {"TALLY_STORES_FILE": str(stores), "TALLY_RAW_RETENTION_SECONDS": KEPT_SECONDS}
    with running_loop(home, *SERVICES, overrides=overrides) as running:
        yield running


@pytest.fixture(scope="module")
def session(loop: Loop) -> Iterator[Session]:
    with cassandra_session(loop.settings) as opened:
        yield opened


class TestTwin:
    @pytest.fixture(scope="class")
    @classmethod
    def sent(cls, loop: Loop, story: TwinStory) -> Sent:
        """Everything that its sensors sent, in both layers."""
        story.send(loop.settings)
        loop.catch_up()
        return Sent(story, time.monotonic())

    @pytest.fixture(scope="class")
    @classmethod
    def ledger(cls, loop: Loop, sent: Sent) -> dict[str, Any]:
        """What the ledger says before any rebuild."""
        return loop.json("audit", "--only", "ledger")

    @pytest.fixture(scope="class")
    @classmethod
    def rebuilt(cls, loop: Loop, sent: Sent, ledger: dict[str, Any]) -> None:
        """A first generation of all of it, in which nobody at the doors is a zero."""
        for first in sent.story.firsts:
            # A level hangs on the store's day, which may have begun two UTC days before.
            days = f"{first - timedelta(2)}..{first + timedelta(sent.story.days)}"
            loop.json("backfill", "declare", "traffic", "--days", days, "--source", "the twin")
        loop.rebuild_all_since(sent.at)

    def test_ledger_names_what_was_refused(self, sent: Sent, ledger: dict[str, Any]) -> None:
        letters: Counter[str] = Counter()
        for one in ledger["ledgers"]:
            letters[one["topic"]] += one.get("dead_letter", 0)

        refused = sent.story.refused
        print(f"{len(sent.story.sent):,} messages; {refused}")
        assert letters.total() == sum(refused) and refused.future_time and refused.key_destroyed
        assert letters["raw-wifi"] == refused.key_destroyed

    @pytest.mark.parametrize("family", ONES)
    def test_speed_layer_has_what_was_sent_but_what_came_late(
        self, loop: Loop, sent: Sent, session: Session, family: str
    ) -> None:
        lateness = timedelta(seconds=loop.settings.lateness_seconds(FAMILIES[family]))
        expected, late = sent.story.expected_speed(ONES[family], lateness, loop.settings)

        held = speed_rows(session, family)
        dropped = session.execute("SELECT SUM(dropped) FROM speed_late WHERE family = %s", [family])

        print(f"{family}: {len(expected):,} cells compared, {late:,} records late")
        assert held == expected and len(expected) > 20
        assert (dropped.one()[0] or 0) == late
        # A day of an outage is more than a counter may be late, and less than a till.
        assert late > 0 or family == "sales"

    def test_speed_layer_has_the_visits(self, sent: Sent, session: Session) -> None:
        expected = sent.story.visits(is_over=False)

        held = visit_rows(session, "wifi_15min")

        print(f"wifi: {len(expected):,} cells compared")
        assert held == expected and len(expected) > 100

    @pytest.mark.parametrize("family", ONES)
    def test_batch_layer_has_what_was_sent(
        self, sent: Sent, session: Session, rebuilt: None, family: str
    ) -> None:
        expected = sent.story.expected(ONES[family])

        held = batch_rows(session, family)

        print(f"{family}: {len(expected):,} cells compared")
        assert held == expected

    @pytest.mark.parametrize("family", ONES)
    def test_wrong_clocks_move_nobody_else_s_number(
        self, sent: Sent, session: Session, rebuilt: None, family: str
    ) -> None:
        honest, misplaced = sent.story.honest(ONES[family]), sent.story.misplaced(ONES[family])

        held = batch_rows(session, family)

        alone = {cell: row for cell, row in honest.items() if cell not in misplaced}
        print(f"{family}: {len(alone):,} cells without, {len(misplaced):,} of wrong clocks")
        assert {cell: row for cell, row in held.items() if cell not in misplaced} == alone
        assert {cell for cell in held if cell in misplaced} == {*misplaced}

    def test_batch_layer_has_the_visits(self, sent: Sent, session: Session, rebuilt: None) -> None:
        expected = sent.story.visits(is_over=True)

        held = visit_rows(session, "batch_wifi_15min")

        print(f"wifi: {len(expected):,} cells compared")
        assert held == expected

    def test_local_days_add_up_to_their_quarter_hours(
        self, loop: Loop, sent: Sent, rebuilt: None
    ) -> None:
        lengths: set[float] = set()
        for store in sent.story.plans:
            for first in sent.story.firsts:
                span = (first - timedelta(1), first + timedelta(sent.story.days + 1))
                for metric in METRICS:
                    days, quarters = (
                        answered(loop, metric, store, span, grain) for grain in ("1d", "15m")
                    )
                    assert values(days) == values(quarters), (store, metric)
                    lengths |= {hours(row) for row in days}
        print(f"days of {sorted(lengths)} hours")
        # Where a month has one of both nights only, another store's may have the other.
        assert {23, 24} <= lengths <= {23, 24, 25}
        assert len(sent.story.firsts) == 1 or 25 in lengths

    @pytest.mark.parametrize(("metric", "grain"), LEVELS)
    def test_persons_inside_are_who_was_counted_in_and_not_out_since_the_day_began(
        self, loop: Loop, sent: Sent, rebuilt: None, metric: str, grain: str
    ) -> None:
        for store in sent.story.plans:
            crossed = crossings(sent.story, store)
            for first in sent.story.firsts:
                span = (first, first + timedelta(sent.story.days))
                rows = answered(loop, metric, store, span, grain)
                expected = [inside(crossed, store, row["end"]) for row in rows]
                assert [row["value"] for row in rows] == expected and any(expected)
                shown = f"at most {max(expected)}" if grain == "15m" else f"by day {expected}"
                print(f"{metric} of {store.store_id}: {len(rows)} levels compared, {shown}")

    def test_no_key_period_cuts_the_visits_after_midnight(self, sent: Sent) -> None:
        found = visits_of(sent.story.sightings())
        late = [
            visit
            for (store, _, _), visits in found.items()
            for visit in visits
            if store == "twin-2" and is_over_midnight(sent.story, visit.first, visit.last)
        ]
        print(f"{len(late)} visits of twin-2 from one date to the next, each one of them whole")
        assert late

    def test_what_was_measured_beside_the_truth(
        self, loop: Loop, sent: Sent, rebuilt: None
    ) -> None:
        story = sent.story
        for truth in truths(story, story.visits(is_over=True)):
            print(f"once a minute, {truth}")
            assert abs(truth.percent) <= MAX_OFF[truth.what]
        exact = Counter(store for store, _ in day_visitors(story))
        for store in story.plans:
            first, last = story.dates[0], story.dates[-1]
            span = (first - timedelta(1), last + timedelta(2))
            rows = answered(loop, "unique_devices", store, span, "1d")
            off = values(rows) / exact[store.store_id] - 1
            error = max(row.get("error") or 0 for row in rows)
            print(f"unique devices of {store.store_id}: {100 * off:+.1f} %, stated {error}")
            # Three times what it says: by chance each four hundredth is beyond.
            assert abs(off) <= 3 * error
        sparse = replace(story, every_seconds=SPARSE_SECONDS, people={})
        for truth in truths(sparse, sparse.visits(is_over=True)):
            print(f"each {SPARSE_SECONDS:.0f} s, {truth}")

    def test_different_devices_of_a_week_are_those_of_its_days_within_the_stated_error(
        self, loop: Loop, sent: Sent, rebuilt: None
    ) -> None:
        """Each day has a key of its own, so no device is one of two days, and days are exact."""
        store, (first, last) = sent.story.plans[0], (sent.story.dates[0], sent.story.dates[-1])
        monday = first - timedelta(first.weekday())
        weeks = answered(loop, "unique_devices", store, (monday, week_after(last)), "1w")
        days = answered(loop, "unique_devices", store, (monday, week_after(last)), "1d")
        assert not any(day["error"] for day in days)
        for week in weeks:
            exact = sum(
                day["value"] or 0 for day in days if week["start"] <= day["start"] < week["end"]
            )
            if not exact:
                continue
            off = week["value"] / exact - 1
            print(f"{week['value']:,} of {exact:,}: {100 * off:+.1f} %, stated {week['error']}")
            assert abs(off) <= 3 * week["error"]
        assert any(week["error"] for week in weeks) == (sent.story.days > FEW)

    def test_audit_agrees(self, loop: Loop, rebuilt: None) -> None:
        found = loop.json("audit", "--against", "master", "--http", "200")

        assert found["ok"], found


def week_after(day: date) -> date:
    """The Monday on which the week of a day is over."""
    return day - timedelta(day.weekday()) + timedelta(7)


def answered(
    loop: Loop, metric: str, store: TwinStore, span: tuple[date, date], grain: str
) -> list[dict[str, Any]]:
    """Rows of the local days, to the last one exclusive."""
    first, last = (one.isoformat() for one in span)
    where = {"store": store.store_id, "tz": store.zone.key}
    asked = where | {"from": first, "to": last, "grain": grain}
    url = f"http://{loop.settings.api}/v1/metrics/{metric}"
    answer = http.get(url, params=asked | {"limit": "10000"}, timeout=300).raise_for_status().json()
    found: list[dict[str, Any]] = answer["rows"]
    return found


def values(rows: list[dict[str, Any]]) -> Any:
    return sum(row["value"] or 0 for row in rows)


def day_visitors(story: TwinStory) -> set[tuple[str, tuple[str, date]]]:
    """Store, and device with the local date on which a visit of it began."""
    zones = {store.store_id: store.zone for store in story.plans}
    return {
        (store, (device, datetime.fromtimestamp(60 * one.first, zones[store]).date()))
        for (store, _, device), visits in visits_of(story.sightings()).items()
        for one in visits
    }


def hours(row: dict[str, Any]) -> float:
    start, end = (datetime.fromisoformat(row[name]) for name in ("start", "end"))
    return (end - start).total_seconds() / 3600


def is_over_midnight(story: TwinStory, first: int, last: int) -> bool:
    """Whether the minutes (since 1970) lie on two dates of the second store."""
    zone = story.plans[1].zone
    one, other = (datetime.fromtimestamp(60 * minute, UTC) for minute in (first, last))
    return one.astimezone(zone).date() != other.astimezone(zone).date()
