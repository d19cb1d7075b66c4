"""Alerts acknowledged, snoozed and resolved over HTTP: what is written, and what is refused."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from alerting.alert.resolution import AlertResolution
from alerting.deliver.state.controls import Acknowledgement, Snooze
from alerting.queries import alerts
from alerting.queries.alerts import ActionRecord
from tally.alerts.message import Alert
from tally.config.settings import Settings
from tally.errors import SendFailed
from tests.support.alerts.alert_memory import MemoryFeed
from tests.support.alerts.alert_suite import END, ENDED, LATE, OPEN, STORY, TAKEN_BACK
from tests.support.questions.api_suite import Ask, asking
from tests.support.serving.serving_world import MemoryViews
from web.api.app import AlertBrokers, create_app

ACTIONS = ("ack", "snooze", "resolve")
BODIES: dict[str, dict[str, Any]] = {
    "ack": {"by": "anna"},
    "snooze": {"minutes": 30},
    "resolve": {"because": "repaired"},
}


class Written(list[ActionRecord]):
    """What was written, in its order; `is_away`: the brokers do not take it."""

    is_away = False

    def __call__(self, record: ActionRecord) -> None:
        if self.is_away:
            raise SendFailed("topic alert-controls at 10.1.2.3: planted")
        self.append(record)


@pytest.fixture
def views(views: MemoryViews) -> MemoryViews:
    views.alerts.told += STORY
    return views


@pytest.fixture
def written() -> Written:
    return Written()


@pytest.fixture
def ask(views: MemoryViews, written: Written) -> Iterator[Ask]:
    with acting(views, written) as function:
        yield function


def acting(
    views: MemoryViews, written: Written, settings: Settings | None = None
) -> AbstractContextManager[Ask]:
    brokers = AlertBrokers(writer=written)
    return asking(create_app(settings or Settings(), views, MemoryFeed(), None, brokers))


def act(ask: Ask, action: str, alert_id: str = OPEN.alert_id, **body: Any) -> httpx.Response:
    return ask(f"/v1/alerts/{alert_id}/{action}", body={**BODIES[action], **body})


def millis() -> int:
    return int(datetime.now(UTC).timestamp() * 1_000)


def test_an_acknowledgement_is_written_for_the_store_of_the_alert(
    ask: Ask, written: Written
) -> None:
    before = millis()

    answer = act(ask, "ack", LATE.alert_id)

    [record] = written
    assert isinstance(record, Acknowledgement)
    assert (record.alert_id, record.store_id, record.by) == (LATE.alert_id, "406", "anna")
    assert before <= record.at <= millis()
    assert (answer.status_code, answer.json()["action"], answer.json()["by"]) == (
        200,
        "ack",
        "anna",
    )


def test_a_snooze_ends_after_its_minutes(ask: Ask, written: Written) -> None:
    before = millis()

    answer = act(ask, "snooze", minutes=90, by="anna")

    [record] = written
    assert isinstance(record, Snooze)
    assert before + 90 * 60_000 <= record.until <= millis() + 90 * 60_000
    assert answer.json()["until"].endswith("Z")


def test_a_resolution_has_what_it_is_about_and_the_reason(ask: Ask, written: Written) -> None:
    answer = act(ask, "resolve", because="The till was being repaired.", by="anna")

    [record] = written
    assert isinstance(record, AlertResolution)
    assert (record.alert_id, record.rule_id, record.store_id, record.subject) == (
        OPEN.alert_id,
        OPEN.rule_id,
        OPEN.store_id,
        OPEN.subject,
    )
    assert (record.by, record.because) == ("anna", "The till was being repaired.")
    assert AlertResolution.decode(record.value) == record
    assert answer.json()["because"] == record.because


@pytest.mark.parametrize("alert", [ENDED, END, TAKEN_BACK])
def test_only_an_open_alert_is_resolved(ask: Ask, written: Written, alert: Alert) -> None:
    answer = act(ask, "resolve", alert.alert_id)

    assert (answer.status_code, written) == (409, [])
    assert "is not open" in answer.json()["detail"]


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("alert_id", ["nobody", "0" * 64])
def test_an_alert_that_does_not_exist_is_not_found(
    ask: Ask, written: Written, action: str, alert_id: str
) -> None:
    assert (act(ask, action, alert_id).status_code, written) == (404, [])


@pytest.mark.parametrize(
    ("action", "body", "field"),
    [
        ("ack", {"by": ""}, "by"),
        ("ack", {"by": " "}, "by"),
        ("ack", {"by": "x" * 201}, "by"),
        ("ack", {"colour": "red"}, "colour"),
        ("snooze", {"minutes": -1}, "minutes"),
        ("snooze", {"minutes": 525_601}, "minutes"),
        ("snooze", {"minutes": 1.5}, "minutes"),
        ("resolve", {"because": ""}, "because"),
        ("resolve", {"because": "\n\t "}, "because"),
        ("resolve", {"because": "x" * 501}, "because"),
        ("resolve", {"because": None}, "because"),
        ("resolve", {"by": "x" * 201}, "by"),
    ],
)
def test_a_field_that_does_not_fit_is_named(
    ask: Ask, written: Written, action: str, body: dict[str, Any], field: str
) -> None:
    answer = act(ask, action, **body)

    assert (answer.status_code, written) == (422, [])
    assert answer.json()["errors"][0]["field"] == field


@pytest.mark.parametrize("action", ACTIONS)
def test_where_edits_are_refused_nothing_is_written(
    views: MemoryViews, written: Written, action: str
) -> None:
    with acting(views, written, Settings(rule_edits="refuse")) as ask:
        answer = act(ask, action)

    assert (answer.status_code, written) == (403, [])
    assert "TALLY_RULE_EDITS" in answer.json()["detail"]


@pytest.mark.parametrize("action", ACTIONS)
def test_without_brokers_or_tables_the_answer_says_to_try_again(
    ask: Ask, views: MemoryViews, written: Written, action: str
) -> None:
    written.is_away = True
    found = [act(ask, action)]
    written.is_away, views.is_down = False, True
    found.append(act(ask, action))

    assert [answer.status_code for answer in found] == [503, 503]
    # Addresses of the inside are for the log.
    assert "10.1.2.3" not in found[0].text
    assert written == []


def test_at_most_so_many_writes_wait(
    ask: Ask, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerts, "MAX_WAITING", 0)

    answer = act(ask, "ack")

    assert (answer.status_code, written) == (503, [])
    assert "retry-after" in answer.headers


def test_an_action_is_sent_and_never_read(ask: Ask, written: Written) -> None:
    found = [ask(f"/v1/alerts/{OPEN.alert_id}/{action}").status_code for action in ACTIONS]

    assert (found, written) == ([405, 405, 405], [])
