"""The routes for actions on an alert: acknowledge, snooze, resolve."""

from typing import Annotated, Literal

from fastapi import Body, FastAPI, Query, Response
from msgspec import Meta
from pydantic import Field

from alerting.alert.resolution import MAX_NAME, MAX_REASON, AlertResolution
from alerting.deliver.state.controls import Acknowledgement, Snooze
from alerting.queries.actions import ActionRecord, AlertActions
from runtime.http.openapi import Responses, Shape, problem_entry, response_entry
from runtime.http.problem import json_response
from tally.time.instants import from_millis
from web.api.alerts.alerts import NO_ALERT, PathAlert
from web.api.requests.shared import REFUSALS, Instant, Parameters

AlertActionName = Literal["ack", "snooze", "resolve"]


class AlertActionAnswer(Shape):
    """What was written about an alert; all brokers that have to have acknowledged it."""

    alert_id: Annotated[str, Meta(description="the alert")]
    store_id: Annotated[str, Meta(description="its store")]
    action: Annotated[AlertActionName, Meta(description="what was done")]
    by: Annotated[str, Meta(description="who did it; empty: not said")]
    at: Annotated[Instant | None, Meta(description="when it was done; null: of a snooze")]
    until: Annotated[
        Instant | None,
        Meta(description="until when no channel is sent the alert; null: of another action"),
    ]
    because: Annotated[str | None, Meta(description="why it was resolved; null: of another action")]


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


class ResolveBody(Parameters):
    """Why an alert is ended by hand; any other field is refused."""

    because: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MAX_REASON,
            pattern=r"\S",
            description="why it needs no further attention",
        ),
    ]
    by: Annotated[str, Field("", max_length=MAX_NAME, description="who resolves it")]


_ACTION: Responses = {
    **REFUSALS,
    200: response_entry("what was written", AlertActionAnswer),
    403: problem_entry("the settings refuse it (TALLY_RULE_EDITS)"),
    404: NO_ALERT,
    503: problem_entry(
        "the alert cannot be read, or the action stored; `Retry-After` says when to try"
    ),
}
_NOT_OPEN = problem_entry(
    "the alert is not open: it has ended, was taken back, or is itself an end"
)
NoQuery = Annotated[Parameters, Query()]


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
        responses={**_ACTION, 409: _NOT_OPEN},
    )
    async def resolve(
        alert_id: PathAlert, body: Annotated[ResolveBody, Body()], _query: NoQuery
    ) -> Response:
        return _answer(await actions.resolve(alert_id, body.because, body.by))


def _answer(record: ActionRecord) -> Response:
    body = AlertActionAnswer(
        alert_id=record.alert_id,
        store_id=record.store_id,
        action=_name(record),
        by=record.by,
        at=None if isinstance(record, Snooze) else from_millis(record.at),
        until=from_millis(record.until) if isinstance(record, Snooze) else None,
        because=record.because if isinstance(record, AlertResolution) else None,
    )
    return json_response(body)


def _name(record: ActionRecord) -> AlertActionName:
    match record:
        case Acknowledgement():
            return "ack"
        case Snooze():
            return "snooze"
    return "resolve"
