"""The route that simulates a rule over past days, and its answer's shapes."""

import asyncio
from collections.abc import Coroutine
from datetime import date
from typing import Annotated, Any

from fastapi import Body, FastAPI, Query, Request, Response
from msgspec import field
from pydantic import Field, model_validator

from alerting.evaluate.scope.calendar import WindowSpan
from alerting.rules.checks import rule_catalogue
from alerting.rules.rule import Rule
from alerting.rules.rule_file import validate_rule
from alerting.simulate.service import SimulatedPage, SimulationRequest, SimulationService
from alerting.simulate.store import IncompleteDay, SimulatedEpisode
from runtime.http.answers import Shape, json_response, problem_entry, response_entry
from runtime.http.work_pools import ANSWERS
from serving.questions.known_stores import KnownStores
from serving.questions.question import MetricQuestion, check_span
from tally.errors import BadQuery, BadRule
from tally.time.instants import UTC_CLOCK, UTC_ZONE, from_millis, to_millis
from web.api.alerts.rules import NO_RULE_OR_STORE, RULE_REFUSALS, PathRule
from web.api.requests import shared
from web.api.requests.shared import After, EntryCursor, Instant, NameList, Parameters, means


class SimulatedEpisodeAnswer(Shape):
    """One alert that would have been published, and its end."""

    # There is no alert_id, because an alert gets the id of its first message, and none was sent.
    store_id: Annotated[str, means("the store")]
    subject: Annotated[str, means("what of the store, e.g. `item:7`; `none`: all of it")]
    rule_version: Annotated[int, means("the version that raises it")]
    start: Annotated[Instant, means("start of its first quarter hour")]
    raised: Annotated[Instant, means("start of the quarter hour that raises it")]
    end: Annotated[
        Instant | None, means("start of the quarter hour that ends it; null: open at `to`")
    ]
    value: Annotated[
        float | None, means("of the quarter hour that raises it; null: silent, or withheld")
    ]
    threshold: Annotated[float | None, means("that it was compared with; null: none")]
    complete: Annotated[
        bool, means("all quarter hours from its day's begin to its end are served complete")
    ]


class IncompleteDayAnswer(Shape):
    """A day of a store of which not all is served complete."""

    store_id: Annotated[str, means("the store")]
    day: Annotated[date, means("its local day")]
    # Given beside the local day, so that a client can draw it without knowing the store's zone.
    start: Annotated[Instant, means("of what was asked of it, inclusive")]
    end: Annotated[Instant, means("exclusive")]
    windows: Annotated[int, means("quarter hours that are not served complete")]
    of: Annotated[int, means("quarter hours of the day that were asked for")]


class SimulationAnswer(Shape):
    """What a rule calls for in some stores over some days."""

    rule_id: Annotated[str, means("the rule")]
    from_: Annotated[Instant, means("inclusive")] = field(name="from")
    to: Annotated[Instant, means("exclusive")]
    stores: Annotated[list[str], means("those of this page, judged whole")]
    episodes: Annotated[
        list[SimulatedEpisodeAnswer], means("by store and begin; one may begin earlier")
    ]
    complete: Annotated[
        bool, means("every quarter hour was served complete, and every begin is known")
    ]
    # The days are listed one by one, because a sum would not show which days to rebuild.
    incomplete: Annotated[list[IncompleteDayAnswer], means("of these days episodes may be missing")]
    begun_before: Annotated[
        list[str],
        means(
            "stores of which the quarter hours before `from` do not show where the rule"
            " stood: an episode of theirs may have begun earlier, or not be one"
        ),
    ]
    articles: Annotated[
        int, means("how many articles of these stores a rule of stock has looked at")
    ]
    next: Annotated[str | None, means("address to send the same body to for further stores")]


def _simulation_answer(
    request: SimulationRequest, page: SimulatedPage, following: str | None
) -> SimulationAnswer:
    # On incomplete days an episode may be missing, even if the others are sure.
    incomplete = [_incomplete_day(day) for store in page.stores for day in store.incomplete_days]
    unsure = [result.store_id for result in page.stores if not result.is_certain]
    return SimulationAnswer(
        rule_id=request.rule_id,
        from_=from_millis(request.span.start),
        to=from_millis(request.span.end),
        stores=[result.store_id for result in page.stores],
        episodes=[_episode(found) for store in page.stores for found in store.episodes],
        complete=not (incomplete or unsure),
        incomplete=incomplete,
        begun_before=unsure,
        articles=sum(result.articles for result in page.stores),
        next=following,
    )


def _episode(simulated: SimulatedEpisode) -> SimulatedEpisodeAnswer:
    episode = simulated.episode
    return SimulatedEpisodeAnswer(
        store_id=simulated.store_id,
        subject=simulated.subject,
        rule_version=episode.version,
        start=from_millis(episode.start),
        raised=from_millis(episode.raised),
        end=None if episode.ended is None else from_millis(episode.ended),
        value=simulated.value,
        threshold=simulated.threshold,
        complete=simulated.is_complete,
    )


def _incomplete_day(day: IncompleteDay) -> IncompleteDayAnswer:
    start, end = from_millis(day.start), from_millis(day.end)
    return IncompleteDayAnswer(
        day.store_id, day.day, start, end, day.incomplete_windows, day.requested_windows
    )


# More than the body's fields, and few enough to answer each unknown field with its own error.
_MAX_FIELDS = 64


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
        # The span is checked like that of a metric: the grid, the years, at most 400 days.
        question = MetricQuestion(["all"], self.from_, self.to, "15m", UTC_ZONE.key)
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
            404: problem_entry(NO_RULE_OR_STORE),
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
            after, span = shared.last_entry(query.after), body.span
            draft = await ANSWERS.run(_draft, rule_id, body.rule)
            named = await shared.check_stores(stores, body.store)
            only = None if named is None else frozenset(named)
            simulation = SimulationRequest(rule_id, span, only, draft)
            page = await service.simulate_page(simulation, after)
            # The next page is asked for by the same body, so the cursor is its only parameter.
            following = None
            if page.after:
                following = shared.page_address(request.url.path, [], EntryCursor(page.after))
            return _simulation_answer(simulation, page, following)

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
        problems = "; ".join(f"rule: {problem}" for problem in error.problems)
        raise BadQuery("rule", problems) from error
    if rule.rule_id != rule_id:
        raise BadQuery("rule", f"rule: rule_id: it is not that of the address, {rule_id[:64]}")
    return rule


async def _run_until_disconnect(
    request: Request, work: Coroutine[Any, Any, SimulationAnswer]
) -> SimulationAnswer | None:
    """The work's result; None if the client disconnects first, and the work is cancelled.

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
