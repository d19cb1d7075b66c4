"""A year of real receipts through the whole loop, with rules in force since before it: what was
told live is what `tally alerts simulate` tells, and that is what the receipts say.

With duplicates, late and conflicting receipts, articles that are counted and delivered, and
rebuilds while more of them arrive. By default few stores: `make test-chaos
ARGS="--alert-stores 40 -k alerts_of_a_year"` for more.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec import structs

from alerting.publish.tables import AlertTables, FiledAlert
from runtime.connect import cassandra_session
from runtime.kafka.reader import read_to_end
from runtime.registry.sources import FAMILIES, SALES
from schemas import loader
from tally.alerts.message import Alert, decode_alert, encode_alert
from tests.support.alerts.alert_year import RULES, AlertYear, busiest, rule_text, send
from tests.support.alerts.alerts import id_of
from tests.support.evaluation.year_episodes import busy, sold_out
from tests.support.stack.loop import Loop, running_loop, wait_until
from tests.support.twin.long_ago import taken_at

INVENTORY = FAMILIES["inventory"]
OF_ARTICLES = {"sold-out"}
SERVICES = ("normaliser", "speed", "receipts", "master", "api")
# Only once stores have sent something: who looks on from the start calls none silent before that.
JUDGING = ("evaluator", "projector")
# Of which the first are what is usual, by when it is judged.
PARTS, USUAL_PARTS = 5, 2
# So much of a rule about articles is asked for at once.
ARTICLE_DAYS = 92
# As long as a rebuild of a part.
SENT_SECONDS = 30.0
JUDGED_SECONDS = 1_800
AMERICAN = {"TALLY_DEFAULT_TIMEZONE": "America/New_York"}


class Comparison(NamedTuple):
    """What `tally alerts simulate --against live` said of the whole year, added up."""

    compared: int
    left_out: int
    differences: list[dict[str, Any]]
    unjudged: list[str]
    episodes: list[dict[str, Any]]


Simulated = dict[str, Comparison]


def simulate(loop: Loop, year: AlertYear, rule_id: str, code: int = 0) -> Comparison:
    """What the verb answers of the whole year, in as few questions as it takes."""
    days = ARTICLE_DAYS if rule_id in OF_ARTICLES else (year.until - year.first).days
    answers, begin = [], year.first
    while begin < year.until:
        end = min(begin + timedelta(days=days), year.until)
        span = ("--from", _text(begin), "--to", _text(end), "--against", "live")
        answers.append(loop.json("alerts", "simulate", rule_id, *span, code=code))
        begin = end
    against = [one["against"] for one in answers]
    return Comparison(
        sum(one["compared"] for one in against),
        sum(one["left_out"] for one in against),
        [*chain.from_iterable(one["differences"] for one in against)],
        [*chain.from_iterable(one["unjudged"] for one in against)],
        [*chain.from_iterable(one["episodes"] for one in answers)],
    )


class TestAlertsOfAYear:
    @pytest.fixture(scope="class")
    @classmethod
    def year(cls, pytestconfig: pytest.Config) -> AlertYear:
        stores = busiest(int(pytestconfig.getoption("--alert-stores")))
        today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        return AlertYear(stores, today - timedelta(days=1))

    @pytest.fixture(scope="class")
    @classmethod
    def loop(cls, year: AlertYear, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
        home, folder = tmp_path_factory.mktemp("year"), tmp_path_factory.mktemp("rules")
        for rule_id in RULES:
            text = rule_text(rule_id, year.stores)
            (folder / f"{rule_id}.yaml").write_text(text, "utf-8")
        with running_loop(home, "kafka", overrides=AMERICAN) as running:
            assert running.run("rules", "apply", str(folder)).returncode == 0
            running.down("kafka")
            assert taken_at(Path(home / "data" / "kafka" / "alert-rules-0"), year.first)
            running.up(*SERVICES)
            yield running

    @pytest.fixture(scope="class")
    @classmethod
    def sent(cls, loop: Loop, year: AlertYear) -> None:
        """All of it told: each part but the first arrives while those before are rebuilt."""
        topics = {one.name: one.raw_topic for one in loader.builtin_sources().values()}
        # Days before the first arrival are covered where somebody says that they were sent whole.
        days = f"{year.first:%Y-%m-%d}..{year.until - timedelta(days=1):%Y-%m-%d}"
        for family in (SALES.name, INVENTORY.name):
            loop.json("backfill", "declare", family, "--days", days, "--source", "the moved year")
        for number, part in enumerate(year.parts(PARTS), start=1):
            rebuild = loop.start("rebuild", "--dirty", "--json")
            messages = dict(zip((topics[SALES.name], topics[INVENTORY.name]), part, strict=True))
            kinds = send(loop.settings, messages, SENT_SECONDS)
            rebuild.communicate(timeout=600)
            assert rebuild.returncode == 0
            loop.catch_up()
            loop.wait_for_receipts()
            print(f"sent {dict(kinds)}")
            if number == USUAL_PARTS:
                loop.json("rebuild", "--dirty")
                # Of each day of the year, of what serves now, before anybody judges.
                usual = loop.json("rules", "baselines", "--since", f"{year.first:%Y-%m-%d}")
                print(f"usual: {usual}")
                loop.up(*JUDGING)
        loop.json("rebuild", "--dirty")
        loop.json("rebuild", "--full")

    @pytest.fixture(scope="class")
    @classmethod
    def simulated(cls, loop: Loop, year: AlertYear, sent: None) -> Simulated:
        """By rule, once the evaluators have looked at all that is served."""
        # Whoever has judged all days of articles has judged all of receipts.
        [last] = OF_ARTICLES
        wait_until(lambda: not simulate(loop, year, last).unjudged, JUDGED_SECONDS, "judged")
        return {rule_id: simulate(loop, year, rule_id) for rule_id in RULES}

    @pytest.mark.parametrize("rule_id", RULES)
    def test_told_live_is_what_is_simulated(self, simulated: Simulated, rule_id: str) -> None:
        found = simulated[rule_id]

        print(f"{rule_id}: {found.compared:,} begins and ends compared")
        assert (found.differences, found.unjudged, found.left_out) == ([], [], 0)
        assert found.compared > 20

    @pytest.mark.parametrize("rule_id", ["busy", "sold-out"])
    def test_what_is_simulated_is_what_receipts_and_documents_say(
        self, simulated: Simulated, year: AlertYear, rule_id: str
    ) -> None:
        # What goes on behind the span of a question has no end in its answer, and one in the next.
        ends = {
            tuple(one[name] for name in ("store_id", "subject", "start")): one["end"]
            for one in simulated[rule_id].episodes
        }
        found = {(*place, end) for place, end in ends.items()}
        own = busy(year) if rule_id == "busy" else sold_out(year)
        expected = {
            (one.store_id, one.subject, _text(one.start), one.ended and _text(one.ended))
            for one in own
        }

        print(f"{rule_id}: {len(expected):,} episodes, {len(found & expected):,} equal")
        print(f"only simulated: {sorted(found - expected, key=str)[:10]}")
        print(f"only said: {sorted(expected - found, key=str)[:10]}")
        assert found == expected

    def test_each_state_was_told_once_and_most_came_while_the_speed_layer_spoke(
        self, loop: Loop, simulated: Simulated
    ) -> None:
        told = alerts(loop)
        states = {(one.alert_id, one.state) for one in told}

        by_state = {
            state: sum(one.state == state for one in told)
            for state in ("provisional", "confirmed", "retracted")
        }
        print(f"{len(told):,} messages: {by_state}")
        assert len(states) == len(told)
        assert all(by_state.values())

    def test_negative_control_an_alert_that_nothing_calls_for_is_found(
        self, loop: Loop, simulated: Simulated, year: AlertYear
    ) -> None:
        told = (one for one in alerts(loop) if (one.rule_id, one.edge) == ("busy", "raise"))
        raised = next(one for one in told if one.state == "confirmed")
        planted = structs.replace(raised, alert_id=id_of("planted"), occurrence=7)
        with cassandra_session(loop.settings) as session:
            AlertTables(session).write_alerts([FiledAlert(planted, encode_alert(planted).decode())])

        [one] = simulate(loop, year, "busy", code=1).differences

        assert (one["kind"], one["alert_id"]) == ("not_called_for", planted.alert_id)


def alerts(loop: Loop) -> list[Alert]:
    """Every message of the topic, in its order."""
    return [
        decode_alert(bytes(one.value() or b"")) for one in read_to_end(loop.settings, ["alerts"])
    ]


def _text(instant: datetime) -> str:
    return f"{instant:%Y-%m-%dT%H:%M:%SZ}"
