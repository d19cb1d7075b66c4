"""A year of real receipts through the whole loop, with rules in force since before it: what was
told live is what `tally alerts simulate` tells, and that is what the receipts say.

With duplicates, late and conflicting receipts, articles that are counted and delivered, and
rebuilds while more of them arrive. By default few stores: `make test-chaos
ARGS="--alert-stores 40 -k alerts_of_a_year"` for more.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec import structs

from runtime.kafka.reader import read_to_end
from runtime.registry.sources import FAMILIES, SALES
from schemas import loader
from tally.alerts.message import Alert, decode_alert
from tally.time.instants import to_millis
from tests.support.alerts.alert_year import RULES, AlertYear, busiest, rule_text, send
from tests.support.alerts.alerts import id_of
from tests.support.evaluation.compared import Called, Compared, compare, of_answer
from tests.support.evaluation.year_episodes import busy, sold_out
from tests.support.stack.loop import Loop, running_loop, wait_until
from tests.support.twin.long_ago import taken_at

INVENTORY = FAMILIES["inventory"]
OF_ARTICLES = {"sold-out"}
SERVICES = ("normaliser", "speed", "receipts", "master", "api")
# Only once stores have sent something: who looks on from the start calls none silent before that.
EVALUATING = ("evaluator", "projector")
# Of which the first are what is usual, by when it is evaluated.
PARTS, USUAL_PARTS = 5, 2
# So much of a rule about articles is asked for at once.
ARTICLE_DAYS = 92
# As long as a rebuild of a part.
SENT_SECONDS = 30.0
EVALUATED_SECONDS = 1_800
AMERICAN = {"TALLY_DEFAULT_TIMEZONE": "America/New_York"}


# What is called for, by rule.
Simulated = dict[str, list[Called]]


def simulate(loop: Loop, year: AlertYear, rule_id: str) -> list[Called]:
    """What the verb answers of the whole year, in as few questions as it takes."""
    days = ARTICLE_DAYS if rule_id in OF_ARTICLES else (year.until - year.first).days
    found: dict[tuple[str, str, int], Called] = {}
    begin = year.first
    while begin < year.until:
        end = min(begin + timedelta(days=days), year.until)
        span = ("--from", _text(begin), "--to", _text(end))
        # What goes on behind the span of a question has no end in its answer, and one in the next.
        called = of_answer(loop.json("alerts", "simulate", rule_id, *span))
        found |= {(one.store_id, one.subject, one.start): one for one in called}
        begin = end
    return [*found.values()]


def compared(
    year: AlertYear, called: Sequence[Called], messages: Iterable[Alert], rule_id: str
) -> Compared:
    return compare(called, messages, rule_id, (to_millis(year.first), to_millis(year.until)))


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
                # Of each day of the year, of what serves now, before anybody evaluates.
                usual = loop.json("rules", "baselines", "--since", f"{year.first:%Y-%m-%d}")
                print(f"usual: {usual}")
                loop.up(*EVALUATING)
        loop.json("rebuild", "--dirty")
        loop.json("rebuild", "--full")

    @pytest.fixture(scope="class")
    @classmethod
    def simulated(cls, loop: Loop, year: AlertYear, sent: None) -> Simulated:
        """By rule, once the evaluators have looked at all that is served."""
        found = {rule_id: simulate(loop, year, rule_id) for rule_id in RULES}
        # Whoever has evaluated all days of articles has evaluated all of receipts.
        [last] = OF_ARTICLES

        def is_told() -> bool:
            return not compared(year, found[last], alerts(loop), last).differences

        wait_until(is_told, EVALUATED_SECONDS, "judged")
        return found

    @pytest.mark.parametrize("rule_id", RULES)
    def test_told_live_is_what_is_simulated(
        self, loop: Loop, year: AlertYear, simulated: Simulated, rule_id: str
    ) -> None:
        found = compared(year, simulated[rule_id], alerts(loop), rule_id)

        print(f"{rule_id}: {found.equal:,} begins and ends are the same")
        assert (found.differences, found.left_out) == ([], 0)
        assert found.equal > 20

    @pytest.mark.parametrize("rule_id", ["busy", "sold-out"])
    def test_what_is_simulated_is_what_receipts_and_documents_say(
        self, simulated: Simulated, year: AlertYear, rule_id: str
    ) -> None:
        found = {(one.store_id, one.subject, one.start, one.end) for one in simulated[rule_id]}
        own = busy(year) if rule_id == "busy" else sold_out(year)
        expected = {
            (one.store_id, one.subject, to_millis(one.start), one.ended and to_millis(one.ended))
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
        messages = [*alerts(loop), planted]
        found = compared(year, simulated["busy"], messages, "busy")

        assert [(one.kind, one.edge) for one in found.differences] == [("not_called_for", "raise")]


def alerts(loop: Loop) -> list[Alert]:
    """Every message of the topic, in its order."""
    return [
        decode_alert(bytes(one.value() or b"")) for one in read_to_end(loop.settings, ["alerts"])
    ]


def _text(instant: datetime) -> str:
    return f"{instant:%Y-%m-%dT%H:%M:%SZ}"
