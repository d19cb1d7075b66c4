"""What an evaluator tells on a real broker is what a simulation over the real tables says."""

from collections import Counter

import pytest
from msgspec import structs

from runtime.process.job import DONE
from tally.alerts.message import Alert
from tests.integration.alerting.evaluate import test_evaluator as live
from tests.integration.alerting.evaluate.quarters import Quarters, last_states
from tests.integration.alerting.evaluate.simulating import (
    PROJECTOR,
    compared,
    filed,
    simulating,
)
from tests.integration.ingest.conftest import Start, stop, wait_until
from tests.support.alerts.alerts import id_of

# The quarter hours are those of the evaluator's own tests.
night = live.night
BATCH = live.BATCH


def all_changes(begin: Start, night: Quarters) -> list[Alert]:
    """What was told once all has happened: duplicates, an evaluator that ends meanwhile, a rebuild
    that covers some, late events, and another one that covers all."""
    with live.running(begin, night):
        for number in range(night.count):
            night.sell(number)
            night.sell(max(0, number - 1))
            night.tick(number + 1)
        wait_until(
            lambda: last_states(night, live.told(night)) == night.provisional(), live.MAX_SECONDS
        )
        night.rebuild(4)
        night.tick(night.count)
    # Of each store three more receipts of one quarter hour, which a later rebuild does not have.
    for store, counts in BATCH.items():
        night.batch[store] = (*counts[:2], counts[2] + 3, *counts[3:])
    with live.running(begin, night):
        night.rebuild(6)
        night.tick(night.count)
        night.sell(2)
        night.batch = {**BATCH}
        night.rebuild()
        night.tick(night.count)
        settled = night.settled().items()
        wait_until(
            lambda: last_states(night, live.told(night)).items() >= settled, live.MAX_SECONDS
        )
    return live.told(night)


def test_what_was_told_live_is_what_is_simulated_and_a_planted_alert_is_found(
    begin: Start, night: Quarters, monkeypatch: pytest.MonkeyPatch
) -> None:
    projector = begin(PROJECTOR)
    told = all_changes(begin, night)
    last = Counter({one.alert_id: one.state for one in told}.values())
    wait_until(lambda: filed(night.settings) == last, live.MAX_SECONDS)
    wanted = Counter(one.rule_id for one, state in night.settled().items() if state == "confirmed")

    span = night.window(0), night.window(night.count)
    with simulating(night.settings, span, monkeypatch) as simulate:
        for rule_id in ("busy", "silent"):
            found = compared(simulate(rule_id), told, rule_id, span)
            assert (found.equal, found.differences) == (wanted[rule_id], [])
            assert found.equal > 0

        confirmed = (one for one in told if (one.rule_id, one.state) == ("busy", "confirmed"))
        raised = next(one for one in confirmed if one.edge == "raise")
        planted = structs.replace(raised, alert_id=id_of("planted"), occurrence=7)
        found = compared(simulate("busy"), [*told, planted], "busy", span)

    assert [one.kind for one in found.differences] == ["not_called_for"]
    assert stop(projector) == DONE
