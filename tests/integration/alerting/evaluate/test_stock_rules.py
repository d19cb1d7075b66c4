"""A rule of articles that run out, evaluated by the evaluator as a process over the real tables."""

import json
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal

import pytest
from msgspec import structs

from alerting.rules.rule import Rule, Threshold
from alerting.rules.topic import write_rules
from alerting.rules.versions import StoredRule
from ops.local.processes.service import Site
from runtime.connect import cassandra_session
from runtime.kafka.reader import read_to_end
from tally.alerts.message import Alert, decode_alert
from tally.time.windows import WINDOW_MILLIS
from tests.integration.alerting.evaluate.shelves import Shelves
from tests.integration.alerting.evaluate.simulating import (
    PROJECTOR,
    compared,
    filed,
    simulating,
)
from tests.integration.ingest.conftest import Start, stop, wait_until
from tests.support.alerts.alerts import id_of
from tests.support.questions.stock_world import counted, moved

MAX_SECONDS = 600
SOLD_OUT = Rule(
    rule_id="sold-out",
    kind="stock",
    metric="stock_on_hand",
    subject="item",
    evaluate="eager",
    condition=Threshold("<=", Decimal(0)),
    clear=Threshold(">=", Decimal(5)),
    delay=0,
)

MILK, BREAD = "item:milk", "item:bread"
# The milk was not out, as is known by now; of the wine nobody knows what there was.
SETTLED = Counter(
    [
        (MILK, "raise", "retracted"),
        (MILK, "clear", "retracted"),
        (BREAD, "raise", "confirmed"),
        (BREAD, "clear", "confirmed"),
    ]
)


@pytest.fixture
def shelves(broker: Site) -> Iterator[Shelves]:
    """The quarter hours from the first on that the rule evaluates."""
    [version] = write_rules(broker.settings, [StoredRule(rule=SOLD_OUT, version=1)])
    with cassandra_session(broker.settings) as session:
        yield Shelves(broker.settings, session, version.effective_from)


def told(shelves: Shelves) -> list[Alert]:
    """Every committed message of the topic; all are of one store, and so of one partition."""
    return [decode_alert(one.value() or b"") for one in read_to_end(shelves.settings, ["alerts"])]


def said(shelves: Shelves) -> list[tuple[str, str, str, float | None]]:
    return [(one.subject, one.edge, one.state, one.value) for one in told(shelves)]


def story(shelves: Shelves) -> None:
    """The milk runs out and is there again, the bread in one quarter hour; then all is rebuilt,
    and a delivery of the milk comes late."""
    shelves.write(-4, "milk", (0, counted(10)))
    shelves.write(-3, "bread", (0, counted(2)))
    shelves.write(-3, "wine", (60, moved(1)))
    shelves.tick(0)
    shelves.sell(0, milk=10, bread=1, wine=4)
    shelves.tick(1)
    shelves.write(1, "milk", (0, moved(7)))
    shelves.sell(1, bread=1)
    shelves.write(1, "bread", (300, moved(9)))
    shelves.tick(3)
    wait_until(lambda: len(told(shelves)) == 4, MAX_SECONDS)
    shelves.rebuild(2)
    shelves.tick(3)
    shelves.write(-2, "milk", (0, moved(3)))
    shelves.rebuild(4)
    shelves.tick(4)
    wait_until(lambda: last_states(shelves) == SETTLED, MAX_SECONDS)


def last_states(shelves: Shelves) -> Counter[tuple[str, str, str]]:
    """Of each alert subject, edge and last state."""
    last = {one.alert_id: (one.subject, one.edge, one.state) for one in told(shelves)}
    return Counter(last.values())


def test_what_runs_out_is_told_at_once_then_confirmed_and_taken_back_for_a_late_delivery(
    begin: Start, shelves: Shelves
) -> None:
    process = begin("alerting.evaluate")
    shelves.write(-4, "milk", (0, counted(10)))
    shelves.write(-3, "bread", (0, counted(50)))
    shelves.tick(0)
    # Nobody has closed the quarter hour.
    shelves.sell(0, milk=10, bread=2)
    wait_until(lambda: len(told(shelves)) == 1, MAX_SECONDS)
    shelves.write(1, "milk", (0, moved(7)))
    shelves.tick(3)
    wait_until(lambda: len(told(shelves)) == 2, MAX_SECONDS)
    shelves.rebuild(3)
    shelves.tick(3)
    wait_until(lambda: len(told(shelves)) == 4, MAX_SECONDS)
    shelves.write(-2, "milk", (0, moved(3)))
    shelves.rebuild(3)
    shelves.tick(3)
    wait_until(lambda: len(told(shelves)) == 6, MAX_SECONDS)

    assert stop(process) == 0
    milk = "item:milk"
    assert said(shelves) == [
        (milk, "raise", "provisional", 0),
        (milk, "clear", "provisional", 7),
        (milk, "raise", "confirmed", 0),
        (milk, "clear", "confirmed", 7),
        (milk, "raise", "retracted", 3),
        (milk, "clear", "retracted", 10),
    ]
    windows = [one.window.start for one in told(shelves)][:2]
    assert windows == [f"{shelves.text(0)}Z", f"{shelves.text(2)}Z"]


def test_what_was_told_of_articles_is_what_is_simulated_and_a_planted_alert_is_found(
    begin: Start, shelves: Shelves, monkeypatch: pytest.MonkeyPatch
) -> None:
    projector, evaluator = begin(PROJECTOR), begin("alerting.evaluate")
    story(shelves)
    standing = Counter(state for _, _, state in SETTLED.elements())
    wait_until(lambda: filed(shelves.settings) == standing, MAX_SECONDS)

    span = shelves.first, shelves.first + 4 * WINDOW_MILLIS
    with simulating(shelves.settings, span, monkeypatch) as simulate:
        assert stop(evaluator) == 0
        done = simulate("sold-out")
        assert compared(done, told(shelves), "sold-out", span) == (2, [], 0)
        found = json.loads(done.stdout)
        assert [one["subject"] for one in found["episodes"]] == [BREAD]
        assert (found["articles"], found["complete"]) == (3, True)

    raised = next(one for one in told(shelves) if one.subject == BREAD)
    planted = structs.replace(
        raised, alert_id=id_of("planted"), subject="item:wine", state="confirmed"
    )
    differences = compared(done, [*told(shelves), planted], "sold-out", span).differences
    assert differences == [("not_called_for", "raise", "item:wine")]
    assert stop(projector) == 0
