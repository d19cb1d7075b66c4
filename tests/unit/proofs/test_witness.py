"""Who judges the deliveries of real dispatchers finds each broken promise."""

import json
from collections.abc import Sequence

import pytest
from msgspec import structs

from tally.alerts.message import Alert
from tests.integration.alerting.deliver.failing_receiver import ReceivedCall
from tests.integration.alerting.deliver.witness import AT_LEAST_ONCE, AT_MOST_ONCE, Witness
from tests.unit.alerting.deliver.deliveries import alert, end_of

RAISED = alert(1)
CONFIRMED = structs.replace(RAISED, state="confirmed")
RETRACTED = structs.replace(RAISED, state="retracted")
ENDED = end_of(RAISED, 2)
TOLD = (RAISED, CONFIRMED, ENDED, RETRACTED, structs.replace(ENDED, state="retracted"))


def call(
    *alerts: Alert, key: str = "", path: str = AT_LEAST_ONCE, taken: bool = True, more: str = ""
) -> ReceivedCall:
    """A call that tells of these, under a key of its own."""
    told = [{"alert_id": one.alert_id, "state": one.state} for one in alerts]
    data = {"alerts": told} if len(told) > 1 else told[0]
    named = key or "".join(one.alert_id[:40] + one.state for one in alerts)
    return ReceivedCall(
        path, named, json.dumps({"data": data}).encode() + more.encode(), True, taken
    )


def breaches(alerts: Sequence[Alert], *calls: ReceivedCall, **held: int) -> list[str]:
    """What was broken, without the alert."""
    by_alert = dict.fromkeys([RAISED.alert_id], held["held"]) if held else {}
    found = Witness(alerts, calls, by_alert).breaches()
    return [line.split(":")[0].split(",")[0] for line in found]


def test_who_is_told_all_of_it_in_order_however_often_is_told_what_is_promised() -> None:
    calls = [call(one, taken=is_taken) for one in TOLD for is_taken in (False, True, True)]

    assert breaches(TOLD, *calls, call(*TOLD[:1], path=AT_MOST_ONCE)) == []


def test_who_was_told_nothing_of_what_is_over_is_told_what_is_promised() -> None:
    assert breaches(TOLD) == []
    assert breaches((RAISED, ENDED)) == []
    assert breaches((RAISED, CONFIRMED), call(CONFIRMED)) == []


@pytest.mark.parametrize(
    ("alerts", "calls", "broken"),
    [
        ((RAISED,), (), "open and never told"),
        ((RAISED,), (call(RAISED, taken=False),), "open and never told"),
        ((RAISED, RETRACTED), (call(RAISED),), "the retraction is missing behind ['provisional']"),
        ((RAISED, RETRACTED), (call(RETRACTED),), "a retraction without its raise"),
        ((RAISED, CONFIRMED), (call(CONFIRMED), call(RAISED)), "out of order"),
        ((RAISED, ENDED), (call(ENDED), call(RAISED)), "an end without its raise before it"),
        ((RAISED, ENDED), (call(ENDED),), "an end without its raise before it"),
        ((RAISED,), (call(RAISED), call(RAISED, more=" ")), "other bytes under one key"),
        ((RAISED,), (call(RAISED), call(RAISED, key="b", taken=False)), "under several keys"),
        ((RAISED,), (call(RAISED), call(RAISED)._replace(is_signed=False)), "not signed"),
        (
            (RAISED,),
            (call(RAISED), *[call(RAISED, path=AT_MOST_ONCE, taken=False)] * 2),
            "called again",
        ),
    ],
)
def test_what_breaks_a_promise_is_said(
    alerts: Sequence[Alert], calls: Sequence[ReceivedCall], broken: str
) -> None:
    assert broken in breaches(alerts, *calls)


def test_what_was_refused_may_come_under_another_key() -> None:
    refused = call(RAISED, taken=False)._replace(is_refused=True)
    both = call(RAISED, alert(5), key="group")

    assert breaches((RAISED, alert(5)), refused, both) == []
    assert Witness((RAISED, alert(5)), [refused, both]).refused_and_sent_otherwise == 1
    assert Witness((RAISED, alert(5)), [refused, call(RAISED)]).refused_and_sent_otherwise == 0
    # Without the refusal the first call may have been acted on.
    assert breaches((RAISED, alert(5)), refused._replace(is_refused=False), both) == [
        "under several keys"
    ]


def test_what_comes_within_a_silence_is_said_taken_or_not() -> None:
    early = call(RAISED, taken=False)

    assert breaches((RAISED,), early, call(RAISED), held=1) == ["told within a silence"]
    assert breaches((RAISED,), early, call(RAISED), held=0) == []
