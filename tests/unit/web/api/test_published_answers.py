"""Each answer of the API is as OpenAPI publishes it, and each that is published is given."""

import json
import re
from collections.abc import Iterator
from datetime import date
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from structlog.testing import capture_logs

from alerting.rules.rule import RuleVersion
from alerting.rules.versions import RuleHistory
from alerting.simulate import service
from runtime.records.gaps import AcceptedGap
from runtime.registry.sources import SALES
from serving.storage.tables import Activity, TillFinding
from tally.config.settings import Settings
from tests.support.alerts.alert_memory import MemoryFeed
from tests.support.alerts.alert_suite import ENDED, OPEN, STORY
from tests.support.evaluation.evaluating import BUSY, ListedRules, in_force
from tests.support.evaluation.simulating import AwayRules, simulations_over
from tests.support.questions.api_suite import DAY, Ask, asking
from tests.support.serving.published import references, unlike
from tests.support.serving.serving_example import DIRTY, NEW, SETTLED, example
from tests.support.serving.serving_world import MemoryViews, at, flip
from web.api.app import AlertBrokers, create_app

# Whatever is written is taken.
WRITTEN = AlertBrokers(writer=lambda record: None)
METRIC = "/v1/metrics/revenue"
ALL = {**DAY, "store": "all", "grain": "1d"}
WINDOW = f"{SETTLED}T10:31:00Z"
REPORT = "/v1/reports/sales"
SPAN = {"from": SETTLED, "to": NEW}
REPORTED = {"store": "367", **SPAN}


class TroubledViews(MemoryViews):
    """Views of the example with a gap and a till that counts anew; `is_broken` is an error of
    our own."""

    is_broken = False

    async def check(self) -> None:
        if self.is_broken:
            raise RuntimeError("planted")
        await super().check()

    def publish(self) -> None:
        """One more generation of the settled day."""
        self.world.pointers.append((SALES, flip(SETTLED, 9, "2017-09-23T00:00", pin=120)))


class TroubledRules(AwayRules):
    """Rules that are as their views are."""

    def __init__(self, *versions: RuleVersion, of: TroubledViews) -> None:
        super().__init__(*versions)
        self.of = of

    def read(self, until: int | None = None) -> RuleHistory:
        if self.of.is_broken:
            raise RuntimeError("planted")
        return super().read(until) if self.of.is_down else ListedRules.read(self, until)


@pytest.fixture
def views() -> TroubledViews:
    world = example()
    world.findings = [(SALES, "367", TillFinding(date(2017, 9, 19), "4", 200, 40))]
    lost = at(f"{SETTLED}T09:00"), at(f"{NEW}T09:00"), at(f"{NEW}T09:00")
    world.gaps = [AcceptedGap("sales", 1, 7, 12, *lost, "deleted")]
    world.activity.append((SALES, Activity("900", date(2017, 9, 19), date(2017, 9, 19))))
    found = TroubledViews(world)
    found.alerts.told += STORY
    return found


@pytest.fixture
def app(views: TroubledViews) -> FastAPI:
    feed = MemoryFeed()
    # Its streams end: an answer without an end is of other tests.
    feed.end()
    rules = TroubledRules(in_force(BUSY, "2026-11-20T00:00"), of=views)
    return create_app(Settings(), views, feed, simulations_over(views, rules), WRITTEN)


@pytest.fixture
def ask(app: FastAPI) -> Iterator[Ask]:
    with asking(app) as function:
        yield function


JSON = {"Content-Type": "application/json"}
ACTION = f"/v1/alerts/{OPEN.alert_id}"
ACTIONS: list[tuple[str, dict[str, Any]]] = [
    (f"{ACTION}/ack", {"body": {"by": "anna"}}),
    (f"{ACTION}/snooze", {"body": {}}),
    (f"{ACTION}/resolve", {"body": {"because": "repaired"}}),
]
SIMULATED = {"body": {"from": SETTLED, "to": NEW}}
OF_VIEWS: list[tuple[str, dict[str, Any]]] = [
    ("/readyz", {}),
    ("/v1/stores", {}),
    (METRIC, {**DAY}),
    ("/v1/explain", {"store": "367", "window": WINDOW}),
    (REPORT, {**REPORTED}),
    ("/v1/stores/nobody/calendar", {**SPAN}),
    ("/v1/stores/367/sensors", {**SPAN}),
    ("/v1/stores/nobody/sensors", {**SPAN}),
    ("/v1/alerts", {"store": "all", **SPAN}),
    (f"/v1/alerts/{OPEN.alert_id}", {}),
    ("/v1/alerts/stream", {"store": "nobody"}),
    ("/v1/rules", {}),
    ("/v1/rules/busy/versions", {}),
    ("/v1/rules/busy/health", {}),
    ("/v1/rules/busy/simulate", SIMULATED),
    *ACTIONS,
]
QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    *OF_VIEWS,
    ("/healthz", {}),
    ("/metrics", {}),
    ("/v1/stores", {"limit": "1"}),
    ("/v1/stores", {"after": "x"}),
    ("/v1/metrics", {}),
    ("/v1/metrics", {"limit": "0"}),
    (METRIC, {**DAY, "as_of": "2017-09-21T00:00:00Z", "tz": "Europe/Rome"}),
    (METRIC, {**ALL, "by": "currency"}),
    (METRIC, {**ALL, "store": "900", "by": "currency", "from": NEW, "to": DIRTY}),
    (METRIC, {**ALL, "limit": "2", "store": "367,406,900"}),
    (METRIC, {**DAY, "grain": "5m"}),
    (METRIC, {**DAY, "from": f"{SETTLED}T10:07:00Z"}),
    ("/v1/metrics/average_basket", {**DAY}),
    ("/v1/metrics/conversion", {**ALL}),
    ("/v1/metrics/units", {**ALL}),
    ("/v1/metrics/happiness", {**DAY}),
    ("/v1/explain", {"store": "367", "window": f"{NEW}T12:00:00Z"}),
    ("/v1/explain", {"store": "367", "window": WINDOW, "family": "traffic"}),
    ("/v1/explain", {"store": "nobody", "window": WINDOW}),
    ("/v1/explain", {"store": "367", "window": "then"}),
    ("/v1/reports", {}),
    ("/v1/reports", {"limit": "1"}),
    ("/v1/reports/productivity_by_hour_of_week", {**REPORTED}),
    ("/v1/reports/weather", {**REPORTED}),
    (REPORT, {**REPORTED, "store": "nobody"}),
    (REPORT, {**REPORTED, "compare": "like_for_like"}),
    ("/v1/stores/367/calendar", {**SPAN}),
    ("/v1/stores/367/calendar", {**SPAN, "to": SETTLED}),
    ("/v1/stores/367/sensors", {**SPAN, "to": "then"}),
    (REPORT, {**REPORTED, "from": f"{SETTLED}T10:07:00Z"}),
    ("/v1/alerts", {"store": "all", "open": "true"}),
    ("/v1/alerts", {"store": "nobody", **SPAN}),
    ("/v1/alerts", {"store": "all", **SPAN, "colour": "red"}),
    ("/v1/alerts/nobody", {}),
    (f"/v1/alerts/{OPEN.alert_id}", {"colour": "red"}),
    ("/v1/alerts/stream", {}),
    ("/v1/alerts/stream", {"colour": "red"}),
    ("/v1/alerts/nobody/ack", {"body": {"by": "anna"}}),
    ("/v1/alerts/nobody/snooze", {"body": {}}),
    ("/v1/alerts/nobody/resolve", {"body": {"because": "repaired"}}),
    (f"/v1/alerts/{ENDED.alert_id}/resolve", {"body": {"because": "repaired"}}),
    (f"{ACTION}/ack", {"body": {}}),
    (f"{ACTION}/snooze", {"body": {"minutes": -1}}),
    (f"{ACTION}/resolve", {"body": {}}),
    ("/v1/rules", {"limit": "0"}),
    ("/v1/rules/nobody/versions", {}),
    ("/v1/rules/busy/versions", {"colour": "red"}),
    ("/v1/rules/nobody/health", {}),
    ("/v1/rules/busy/health", {"colour": "red"}),
    ("/v1/rules/nobody/simulate", SIMULATED),
    ("/v1/rules/busy/simulate", {"body": {}}),
    ("/v1/rules/busy/simulate", {"body": b"\xff", "headers": JSON}),
    ("/v1/rules/busy/simulate", {"body": b" " * 65_537, "headers": JSON}),
    ("/v1/reports", {f"a{number}": "1" for number in range(65)}),
]


def test_each_published_answer_is_given_and_fits(
    ask: Ask, views: TroubledViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    # That each of them fits is seen as `ask` ends.
    met = {state(ask(path, **asked)) for path, asked in QUESTIONS}
    following = ask("/v1/metrics/units", **ALL, limit="1").json()["next"]
    views.publish()
    met.add(state(ask(following)))
    views.is_down = True
    met |= {state(ask(path, **asked)) for path, asked in QUESTIONS}
    views.is_down = False
    with asking(create_app(Settings(rule_edits="refuse"), views, brokers=WRITTEN)) as closed:
        met |= {state(closed(path, **asked)) for path, asked in ACTIONS}
    views.is_broken = True
    with capture_logs():
        met |= {state(ask(path, **asked)) for path, asked in OF_VIEWS}
    monkeypatch.setattr(service, "MAX_WAITING", 0)
    met.add(state(ask("/v1/rules/busy/simulate", **SIMULATED)))

    assert published(ask) - met == set()


def state(answer: httpx.Response) -> str:
    path = answer.request.url.path
    of_names = ("/v1/metrics/{metric_id}", "/v1/reports/{report_id}")
    of_stores = ("/v1/stores/{store}/calendar", "/v1/stores/{store}/sensors")
    of_rules = [f"/v1/rules/{{rule_id}}/{one}" for one in ("versions", "health", "simulate")]
    of_alerts = [f"/v1/alerts/{{alert_id}}{one}" for one in ("/ack", "/snooze", "/resolve", "")]
    for named in (*of_names, *of_stores, *of_rules, *of_alerts):
        before, _, behind = re.split("({.*})", named)
        is_other = path in (before, "/v1/alerts/stream")
        if path.startswith(before) and path.endswith(behind) and not is_other:
            return f"{named} {answer.status_code}"
    return f"{path} {answer.status_code}"


def published(ask: Ask) -> set[str]:
    paths = ask("/openapi.json").json()["paths"]
    return {
        f"{path} {status}"
        for path, of in paths.items()
        for operation in of.values()
        for status in operation["responses"]
    }


def test_every_shape_that_is_referred_to_is_there(ask: Ask) -> None:
    document = ask("/openapi.json").json()
    named = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}

    assert set(references(document)) <= named


def test_every_parameter_and_field_says_what_it_means(ask: Ask) -> None:
    document = ask("/openapi.json").json()
    operations = [one for of in document["paths"].values() for one in of.values()]
    parameters = [one for operation in operations for one in operation.get("parameters", [])]
    fields = [
        {"name": f"{name}.{field}", **schema}
        for name, shape in document["components"]["schemas"].items()
        for field, schema in shape["properties"].items()
    ]

    assert [one["name"] for one in (*parameters, *fields) if not one.get("description")] == []


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("value", "300", "value: '300' is not valid under any of the given schemas"),
        ("events", 2.5, "events: 2.5 is not valid under any of the given schemas"),
        ("status", "sure", "['final', 'not_measured', 'provisional', 'restated']"),
        ("start", "2017-09-19T10:00:00", "start: '2017-09-19T10:00:00' is not a 'date-time'"),
        ("colour", "red", ": Additional properties are not allowed ('colour' was unexpected)"),
    ],
)
def test_a_planted_wrong_field_is_found(
    app: FastAPI, ask: Ask, field: str, value: Any, said: str
) -> None:
    body = ask(METRIC, **DAY).json()
    assert unlike(app, given(200, body)) == []
    body["rows"][40][field] = value

    (line,) = unlike(app, given(200, body))
    assert line.startswith(f"GET {METRIC} 200: $.rows[40]")
    assert line.endswith(said)


def given(
    status: int, body: Any, path: str = METRIC, media_type: str = "application/json"
) -> httpx.Response:
    request = httpx.Request("GET", f"http://tally{path}")
    headers = {"content-type": media_type}
    return httpx.Response(status, content=json.dumps(body), headers=headers, request=request)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (given(200, {}), f"GET {METRIC} 200: $: {{}} is not valid under any of the given schemas"),
        (given(418, {}), f"GET {METRIC} 418: no such answer is published"),
        (
            given(404, {}),
            f"GET {METRIC} 404: application/json is not published, but application/problem+json",
        ),
        (given(200, {}, "/v2/metrics"), "GET /v2/metrics 200: no such answer is published"),
    ],
)
def test_an_answer_that_nothing_publishes_is_found(
    app: FastAPI, answer: httpx.Response, said: str
) -> None:
    assert unlike(app, answer) == [said]
