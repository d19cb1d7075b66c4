"""The route that simulates a rule over past days."""

import asyncio
from collections.abc import Coroutine
from typing import Annotated, Any, TypeVar

from fastapi import Body, FastAPI, Query, Request, Response
from pydantic import Field, model_validator

from alerting.evaluate.snapshot.calendar import WindowSpan
from alerting.rules.rule import Rule
from alerting.rules.rule_file import validate_rule
from alerting.rules.store.catalogue import rule_catalogue
from alerting.simulate.findings import SimulationRequest
from alerting.simulate.service import SimulationService
from runtime.http.openapi import problem_entry, response_entry
from runtime.http.problem import json_response
from runtime.http.work_pools import ANSWERS
from serving.questions.known_stores import KnownStores
from serving.questions.question import MetricQuestion, check_span
from tally.errors import BadQuery, BadRule
from tally.time.instants import UTC_CLOCK, UTC_ZONE, to_millis
from web.api.alerts.rules import NO_RULE_OR_STORE, RULE_REFUSALS, PathRule
from web.api.alerts.simulation_answers import SimulationAnswer, simulation_answer
from web.api.requests.cursor import EntryCursor, address, last_entry
from web.api.requests.shared import After, NameList, Parameters, check_stores

# More than the body's fields, and few enough to answer each unknown field with its own error.
_MAX_FIELDS = 64
_Result = TypeVar("_Result")


class SimulationPageQuery(Parameters):
    """Parameters of a page of a simulation."""

    after: After


class SimulationBody(Parameters):
    """What a rule is to be simulated over; any other field is refused."""

    from_: Annotated[
        str,
        Field(
            alias="from",
            max_length=100,
            description="inclusive: instant with offset, or YYYY-MM-DD (UTC); on a quarter hour",
        ),
    ]
    to: Annotated[
        str, Field(max_length=100, description="exclusive, as `from`; at most 400 days on")
    ]
    store: Annotated[
        NameList,
        Field(["all"], description="store ids, or `all`; of them those that the rule is about"),
    ]
    rule: Annotated[
        dict[str, Any] | None,
        Field(
            None,
            description="a rule in the place of all versions of the one of the address, as"
            " schemas/rules/rule.schema.json has it; null: as it was applied",
        ),
    ]

    @model_validator(mode="before")
    @classmethod
    def _has_few_fields(cls, fields: Any) -> Any:
        if isinstance(fields, dict) and len(fields) > _MAX_FIELDS:
            raise ValueError(f"at most {_MAX_FIELDS} fields, got {len(fields):,}")
        return fields

    @property
    def span(self) -> WindowSpan:
        """The windows, milliseconds since 1970 (UTC). Raises BadQuery."""
        # Days are UTC days, as in the list of alerts, because each store has its own time zone.
        zone = UTC_ZONE.key
        # The span is checked like that of a metric: the grid, the years, at most 400 days.
        question = MetricQuestion(["all"], self.from_, self.to, "15m", zone, [], None)
        start, end = check_span(question, UTC_CLOCK)
        return WindowSpan(to_millis(start), to_millis(end))


def add_simulation_route(app: FastAPI, service: SimulationService, stores: KnownStores) -> None:
    """Add the route for the simulation of a rule."""

    @app.post(
        "/v1/rules/{rule_id}/simulate",
        summary="What a rule calls for over past days; it publishes nothing",
        responses={
            **RULE_REFUSALS,
            200: response_entry("some stores, judged whole", SimulationAnswer),
            404: NO_RULE_OR_STORE,
            400: problem_entry("the body cannot be read"),
            413: problem_entry("the body has more than 65,536 bytes"),
            429: problem_entry("four simulations wait already; `Retry-After` says when to ask"),
        },
    )
    async def simulate(
        rule_id: PathRule,
        query: Annotated[SimulationPageQuery, Query()],
        body: Annotated[SimulationBody, Body()],
        request: Request,
    ) -> Response:
        async def answer_page() -> SimulationAnswer:
            # An invalid query is refused before any store is looked up.
            after, span = last_entry(query.after), body.span
            draft = await ANSWERS.run(_draft, rule_id, body.rule)
            named = await check_stores(stores, body.store)
            only = None if named is None else frozenset(named)
            simulation = SimulationRequest(rule_id, span, only, draft)
            page = await service.simulate_page(simulation, after)
            # The next page is asked for by the same body, so the cursor is its only parameter.
            following = None
            if page.after:
                following = address(request.url.path, [], EntryCursor(page.after))
            return simulation_answer(simulation, page, following)

        answer = await _run_until_disconnect(request, answer_page())
        if answer is None:
            # The client has left; 499 is what proxies log for a client that disconnected.
            return Response(status_code=499)
        # Encoded in a thread, because a year without data may list tens of thousands of days.
        return await ANSWERS.run(json_response, answer)


def _draft(rule_id: str, fields: dict[str, Any] | None) -> Rule | None:
    """The rule in the body. Raises BadQuery with all of the rule's problems."""
    if fields is None:
        return None
    # Checked like a rule file, because simulating a rule that could not be applied is meaningless.
    try:
        rule = validate_rule(fields, rule_catalogue())
    except BadRule as error:
        raise BadQuery(
            "rule", "; ".join(f"rule: {problem}" for problem in error.problems)
        ) from error
    if rule.rule_id != rule_id:
        raise BadQuery("rule", f"rule: rule_id: it is not that of the address, {rule_id[:64]}")
    return rule


async def _run_until_disconnect(
    request: Request, work: Coroutine[Any, Any, _Result]
) -> _Result | None:
    """The result of the work; None if the client disconnects first, and the work is cancelled.

    The body of the request has to be read before. Raises what the work raises.
    """
    task = asyncio.ensure_future(work)
    disconnect = asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        await asyncio.wait((task, disconnect), return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        task.cancel()
        disconnect.cancel()
        await asyncio.wait((task, disconnect))


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
