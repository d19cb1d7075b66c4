"""The routes for the list of alerts, for one alert, and for actions on it."""

from datetime import timedelta
from typing import Annotated, Literal

from fastapi import Body, FastAPI, Path, Query, Request, Response
from pydantic import Field

from alerting.alert.resolution import MAX_NAME, MAX_REASON, AlertResolution
from alerting.deliver.state.controls import Acknowledgement, Snooze
from alerting.queries.alerts import (
    ActionRecord,
    AlertActions,
    AlertFilter,
    AlertPosition,
    AlertQueryService,
    AlertSearch,
    ListedAlert,
)
from runtime.http.answers import Responses, Shape, json_response, problem_entry, response_entry
from runtime.http.work_pools import ANSWERS
from serving.questions.known_stores import KnownStores
from serving.questions.question import check_years, instant, split_names
from tally.alerts.message import Alert, EpisodeSpan
from tally.errors import BadQuery
from tally.time.instants import UTC_CLOCK, from_millis
from tally.time.windows import TimeRange
from web.api.requests import shared
from web.api.requests.shared import AlertCursor, Instant, NameList, NoQuery, Parameters, means

PathAlert = Annotated[str, Path(description="`alert_id` of its messages")]
_NO_ALERT = "there is no such alert"
RuleIds = Annotated[NameList, Field([], description="ids of rules, comma between; default all")]
SeverityNames = Annotated[
    NameList, Field([], description="info, warning, critical, comma between; default all")
]
_FROM_MEANING = (
    "raised at or after: instant with offset, or YYYY-MM-DD (UTC); needed unless open=true"
)


class AlertList(Shape):
    """A page of alerts, each in its last state, newest first."""

    alerts: Annotated[
        list[ListedAlert], means("at most `limit`; fewer, even none, where `next` goes on")
    ]
    next: shared.Next


# The messages are the records of the topic, so a subscriber already knows their fields.
class AlertAnswer(Shape):
    """One alert with its whole life."""

    alert: Annotated[ListedAlert, means("in its last state")]
    episode: Annotated[EpisodeSpan, means("as it is known now, its end included")]
    states: Annotated[
        list[Alert], means("each message, by state; after an erasure the last one alone")
    ]
    ends: Annotated[
        list[Alert], means("each message of the clears that end it, by when they began")
    ]


class AlertQuery(shared.PageQuery):
    """Parameters of the list of alerts; any other is refused."""

    store: shared.StoreNames
    rule: RuleIds
    severity: SeverityNames
    state: Annotated[
        Literal["provisional", "confirmed", "retracted"] | None,
        Field(None, description="the last one of the alert; default any"),
    ]
    edge: Annotated[
        Literal["raise", "clear"] | None,
        Field(None, description="where an episode begins, or its end; default both"),
    ]
    from_: Annotated[str, Field("", alias="from", max_length=100, description=_FROM_MEANING)]
    to: Annotated[
        str, Field("", max_length=100, description="raised before; as `from`, at most 400 days on")
    ]
    open: Annotated[
        bool | None,
        Field(None, description="true: only what is open, whenever it was raised; false: the rest"),
    ]
    late: Annotated[
        bool | None, Field(None, description="whether it was published long after; default both")
    ]

    @property
    def alert_filter(self) -> AlertFilter:
        """The filter on alerts, apart from their stores and their time."""
        return AlertFilter(
            frozenset(split_names(self.rule)),
            frozenset(split_names(self.severity)),
            frozenset(filter(None, [self.state])),
            frozenset(filter(None, [self.edge])),
            self.late,
        )

    @property
    def span(self) -> TimeRange | None:
        """When alerts were raised; None if open=true is asked for without it. Raises BadQuery."""
        # Open alerts are those of now, so a span would not limit their cost and is not needed.
        if self.open and not self.from_ and not self.to:
            return None
        # Days are UTC days, by which alerts are stored, because each store has its own time zone.
        start, end = instant(self.from_, "from", UTC_CLOCK), instant(self.to, "to", UTC_CLOCK)
        check_years("from", start)
        check_years("to", end)
        if start >= end:
            raise BadQuery("from", f"from: {self.from_} is not before to: {self.to}")
        if end - start > timedelta(days=400):
            raise BadQuery("to", "to: at most 400 days on; ask for less")
        return TimeRange(start, end)


def add_alert_routes(app: FastAPI, alert_queries: AlertQueryService, stores: KnownStores) -> None:
    """Add the routes for the list of alerts, and for one alert."""

    @app.get(
        "/v1/alerts",
        summary="Alerts, newest first",
        responses=shared.declare(
            "a page of alerts, each in its last state", AlertList, unknown=shared.NO_STORE
        ),
    )
    async def alerts(query: Annotated[AlertQuery, Query()], request: Request) -> Response:
        # An invalid query is refused before any store is looked up.
        span, last = query.span, shared.decode_cursor(query.after, AlertCursor)
        after = AlertPosition(last.raised, last.alert) if last else None
        store_ids = await shared.list_stores(stores, query.store)
        question = AlertSearch(store_ids, query.alert_filter, span, query.open)
        found, end = await alert_queries.read_page(question, after, query.limit)
        following = shared.next_address(request, AlertCursor(*end) if end else None)
        return await ANSWERS.run(json_response, {"alerts": found, "next": following})

    @app.get(
        "/v1/alerts/{alert_id}",
        summary="One alert and its life",
        responses=shared.declare(
            "the alert and all its published states", AlertAnswer, unknown=_NO_ALERT
        ),
    )
    async def alert(alert_id: PathAlert, _query: NoQuery) -> Response:
        life = await alert_queries.read_life(alert_id)
        states, ends = [*life.states], [*life.ends]
        return json_response(AlertAnswer(life.last, life.episode, states, ends))


AlertActionName = Literal["ack", "snooze", "resolve"]
_ACTION_NAMES: dict[type[ActionRecord], AlertActionName] = {
    Acknowledgement: "ack",
    Snooze: "snooze",
    AlertResolution: "resolve",
}


class AlertActionAnswer(Shape):
    """What was written about an alert; all brokers that have to have acknowledged it."""

    alert_id: Annotated[str, means("the alert")]
    store_id: Annotated[str, means("its store")]
    action: Annotated[AlertActionName, means("what was done")]
    by: Annotated[str, means("who did it; empty: not said")]
    at: Annotated[Instant | None, means("when it was done; null: of a snooze")]
    until: Annotated[
        Instant | None, means("until when no channel is sent the alert; null: of another action")
    ]
    because: Annotated[str | None, means("why it was resolved; null: of another action")]


class AcknowledgeBody(Parameters):
    """Who takes an alert on; any other field is refused."""

    by: Annotated[
        str, Field(min_length=1, max_length=MAX_NAME, pattern=r"\S", description="who takes it on")
    ]


class SnoozeBody(Parameters):
    """For how long an alert is kept back; any other field is refused."""

    minutes: Annotated[
        int, Field(60, ge=0, le=525_600, description="minutes from now on; 0 ends the snooze")
    ]
    by: Annotated[str, Field("", max_length=MAX_NAME, description="who snoozes it")]


_REASON_MEANING = "why it needs no further attention"


class ResolveBody(Parameters):
    """Why an alert is ended by hand; any other field is refused."""

    because: Annotated[
        str, Field(min_length=1, max_length=MAX_REASON, pattern=r"\S", description=_REASON_MEANING)
    ]
    by: Annotated[str, Field("", max_length=MAX_NAME, description="who resolves it")]


_ACTION: Responses = {
    **shared.REFUSALS,
    200: response_entry("what was written", AlertActionAnswer),
    403: problem_entry("the settings refuse it (TALLY_RULE_EDITS)"),
    404: problem_entry(_NO_ALERT),
    503: problem_entry(
        "the alert cannot be read, or the action stored; `Retry-After` says when to try"
    ),
}
_NOT_OPEN = "the alert is not open: it has ended, was taken back, or is itself an end"


def add_alert_action_routes(app: FastAPI, actions: AlertActions) -> None:
    """Add one route for each action; a successful answer means that the record is stored."""

    @app.post(
        "/v1/alerts/{alert_id}/ack",
        summary="Note who takes an alert on; its deliveries go on",
        responses=_ACTION,
    )
    async def acknowledge(
        alert_id: PathAlert, body: Annotated[AcknowledgeBody, Body()], _query: NoQuery
    ) -> Response:
        return _answer(await actions.acknowledge(alert_id, body.by))

    @app.post(
        "/v1/alerts/{alert_id}/snooze",
        summary="Keep an alert back from all channels for some minutes",
        responses=_ACTION,
    )
    async def snooze(
        alert_id: PathAlert, body: Annotated[SnoozeBody, Body()], _query: NoQuery
    ) -> Response:
        return _answer(await actions.snooze(alert_id, body.minutes, body.by))

    @app.post(
        "/v1/alerts/{alert_id}/resolve",
        summary="End an open alert by hand; the evaluator ends it as it reads the resolution",
        responses={**_ACTION, 409: problem_entry(_NOT_OPEN)},
    )
    async def resolve(
        alert_id: PathAlert, body: Annotated[ResolveBody, Body()], _query: NoQuery
    ) -> Response:
        return _answer(await actions.resolve(alert_id, body.because, body.by))


def _answer(record: ActionRecord) -> Response:
    body = AlertActionAnswer(
        alert_id=record.alert_id,
        store_id=record.store_id,
        action=_ACTION_NAMES[type(record)],
        by=record.by,
        at=None if isinstance(record, Snooze) else from_millis(record.at),
        until=from_millis(record.until) if isinstance(record, Snooze) else None,
        because=record.because if isinstance(record, AlertResolution) else None,
    )
    return json_response(body)
