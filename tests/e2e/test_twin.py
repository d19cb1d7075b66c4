"""Twin stores through the whole loop, over the night on which clocks are set forward: duplicates,
disorder, an outage with all of it pushed again, clocks a day fast and a week slow.

What sensors sent is known to the last message, and so is what happened.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import pytest
from cassandra.cluster import Session

from runtime.connect import cassandra_session
from tests.support.loop import SERVICES, Loop, running_loop
from tests.support.tables import batch_rows, speed_rows, visit_rows
from tests.support.twin import TwinStory, truths

ONES = {"sales": "pos", "traffic": "traffic"}
# Once a minute, and lost now and then.
MOST_OFF = {"visits": 5.0, "stay in seconds": 10.0}


@dataclass
class Sent:
    """The story, and time.monotonic() when it had been sent."""

    story: TwinStory
    at: float


@pytest.fixture(scope="module")
def story(request: pytest.FixtureRequest) -> TwinStory:
    stores, days = map(int, request.config.getoption("--twin").split("x"))
    return TwinStory(stores, days, date(2026, 3, 28), passers=600)


@pytest.fixture(scope="module")
def loop(story: TwinStory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    home = tmp_path_factory.mktemp("twin")
    stores = story.stores_file(tmp_path_factory.mktemp("stores"))
    with running_loop(home, *SERVICES, overrides={"TALLY_STORES_FILE": str(stores)}) as running:
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
        return loop.json("audit", "--only", "ledger")

    @pytest.fixture(scope="class")
    @classmethod
    def rebuilt(cls, loop: Loop, sent: Sent, ledger: dict[str, Any]) -> None:
        """A first generation of all of it."""
        loop.rebuild_all_since(sent.at)

    @pytest.mark.parametrize("family", ONES)
    def test_speed_layer_has_what_was_sent_but_what_its_ledger_names(
        self, loop: Loop, sent: Sent, session: Session, family: str, ledger: dict[str, Any]
    ) -> None:
        lateness = timedelta(seconds=7200)
        expected, late = sent.story.expected_speed(ONES[family], lateness, loop.settings)

        held = speed_rows(session, family)

        print(f"{family}: {len(expected):,} cells compared, {late:,} records late; {ledger}")
        assert held == expected and len(expected) > 20

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

        assert batch_rows(session, family) == expected

    def test_batch_layer_has_the_visits(self, sent: Sent, session: Session, rebuilt: None) -> None:
        expected = sent.story.visits(is_over=True)

        assert visit_rows(session, "batch_wifi_15min") == expected
        for truth in truths(sent.story, expected):
            print(
                f"{truth.what}: {truth.true:.0f} true, {truth.measured:.0f} measured,"
                f" {truth.percent:+.1f} %"
            )
            assert abs(truth.percent) <= MOST_OFF[truth.what]

    def test_audit_agrees(self, loop: Loop, rebuilt: None) -> None:
        found = loop.json("audit", "--against", "master", "--http", "200")
        print(found)
        assert found["ok"]
