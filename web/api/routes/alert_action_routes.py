"""The routes for actions on an alert: acknowledge, snooze, resolve."""

from typing import Annotated

import msgspec
from fastapi import Body, FastAPI, Path, Query, Response

from alerting.alert.resolution import AlertResolution
from alerting.deliver.state.controls import Acknowledgement, Snooze
from alerting.queries.actions import ActionRecord, AlertActions
from tally.time.instants import from_millis
from web.api.answers import described
from web.api.answers.alert_answers import AlertActionAnswer, AlertActionName
from web.api.requests.alert_parameters import AcknowledgeBody, NoQuery, ResolveBody, SnoozeBody

_PathId = Annotated[str, Path(description="`alert_id` of its messages")]


def add_alert_action_routes(app: FastAPI, actions: AlertActions) -> None:
    """Add one route for each action; a successful answer means that the record is stored."""

    @app.post(
        "/v1/alerts/{alert_id}/ack",
        summary="Note who takes an alert on; its deliveries go on",
        responses=described.ALERT_ACTION,
    )
    async def acknowledge(
        alert_id: _PathId,
        body: Annotated[AcknowledgeBody, Body()],
        _query: Annotated[NoQuery, Query()],
    ) -> Response:
        return _answer(await actions.acknowledge(alert_id, body.by))

    @app.post(
        "/v1/alerts/{alert_id}/snooze",
        summary="Keep an alert back from all channels for some minutes",
        responses=described.ALERT_ACTION,
    )
    async def snooze(
        alert_id: _PathId, body: Annotated[SnoozeBody, Body()], _query: Annotated[NoQuery, Query()]
    ) -> Response:
        return _answer(await actions.snooze(alert_id, body.minutes, body.by))

    @app.post(
        "/v1/alerts/{alert_id}/resolve",
        summary="End an open alert by hand; the evaluator ends it as it reads the resolution",
        responses=described.RESOLUTION,
    )
    async def resolve(
        alert_id: _PathId, body: Annotated[ResolveBody, Body()], _query: Annotated[NoQuery, Query()]
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
    return Response(msgspec.json.encode(body), media_type="application/json")


def _name(record: ActionRecord) -> AlertActionName:
    match record:
        case Acknowledgement():
            return "ack"
        case Snooze():
            return "snooze"
    return "resolve"
