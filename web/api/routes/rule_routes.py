"""The rule routes: the list of rules, the versions of one, and the simulation of one."""

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from fastapi import Body, FastAPI, Path, Query, Request, Response

from alerting.rules.rule import Rule, RuleVersion, rule_to_fields
from alerting.rules.rule_file import validate_rule
from alerting.rules.store.catalogue import rule_catalogue
from alerting.simulate.findings import IncompleteDay, SimulatedPage
from alerting.simulate.service import SimulationRequest, SimulationService
from runtime.http.work_pools import ANSWERS
from serving.questions.known_stores import KnownStores
from serving.questions.question import parse_stores
from tally.errors import BadQuery, BadRule
from tally.time.instants import from_millis
from web.api.answers import described
from web.api.answers.rule_answers import (
    IncompleteDayAnswer,
    RuleEntryAnswer,
    RuleList,
    RuleVersionsAnswer,
    SimulatedEpisodeAnswer,
    SimulationAnswer,
)
from web.api.requests import cursor
from web.api.requests.alert_parameters import NoQuery
from web.api.requests.disconnects import run_until_disconnect
from web.api.requests.parameters import PageQuery
from web.api.requests.rule_parameters import SimulationBody, SimulationPageQuery

_RULE_ID = Path(description="`rule_id` of its file")


@dataclass(frozen=True)
class RuleRoutes:
    """The parts that the rule routes work with."""

    simulation_service: SimulationService
    stores: KnownStores

    async def page(self, query: PageQuery, request: Request) -> RuleList:
        """One page of the list. Raises BadQuery, ViewsUnreachable."""
        last = cursor.decode(query.after, cursor.EntryCursor)
        chains = (await self.simulation_service.rules.read()).versions
        # Pages are cut by id instead of by count, so that a rule added since the last page does not
        # shift the others.
        remaining = sorted(rule_id for rule_id in chains if last is None or rule_id > last.entry)
        shown = remaining[: query.limit]
        more = cursor.EntryCursor(shown[-1]) if len(remaining) > len(shown) else None
        parameters = request.query_params.multi_items()
        address = cursor.address(request.url.path, parameters, more) if more else None
        return RuleList([entry_answer(chains[rule_id][-1]) for rule_id in shown], address)

    async def simulation_page(
        self, rule_id: str, body: SimulationBody, after: str, path: str
    ) -> SimulationAnswer:
        """One page of a simulation. Raises BadQuery, UnknownName, ViewsUnreachable."""
        last = cursor.decode(after, cursor.EntryCursor)
        # An invalid query is refused before any store is looked up.
        span = body.span
        draft = await ANSWERS.run(_draft, rule_id, body.rule)
        named = parse_stores(body.store)
        if named is not None:
            await self.stores.check(named)
        wish = SimulationRequest(
            rule_id,
            span,
            None if named is None else frozenset(named),
            draft,
        )
        page = await self.simulation_service.simulate_page(wish, last.entry if last else "")
        more = cursor.EntryCursor(page.after) if page.after else None
        address = cursor.address(path, [], more) if more else None
        return simulation_answer(wish, page, address)


def add_rule_routes(app: FastAPI, routes: RuleRoutes) -> None:
    """Add the routes for the list of rules, the versions of one, and its simulation."""

    @app.get("/v1/rules", summary="Rules, each in its newest version", responses=described.RULES)
    async def rules(query: Annotated[PageQuery, Query()], request: Request) -> Response:
        # Each entry has a rule of some hundred bytes, so encoding a page is fast.
        return _json(await routes.page(query, request))

    @app.get(
        "/v1/rules/{rule_id}/versions",
        summary="All versions of a rule",
        responses=described.RULE_VERSIONS,
    )
    async def versions(
        rule_id: Annotated[str, _RULE_ID], _query: Annotated[NoQuery, Query()]
    ) -> Response:
        rule_versions = await routes.simulation_service.rules.versions(rule_id)
        return _json(
            RuleVersionsAnswer(rule_id, [entry_answer(version) for version in rule_versions])
        )

    @app.post(
        "/v1/rules/{rule_id}/simulate",
        summary="What a rule calls for over past days; it publishes nothing",
        responses=described.SIMULATION,
    )
    async def simulate(
        rule_id: Annotated[str, _RULE_ID],
        query: Annotated[SimulationPageQuery, Query()],
        body: Annotated[SimulationBody, Body()],
        request: Request,
    ) -> Response:
        work = routes.simulation_page(rule_id, body, query.after, request.url.path)
        answer = await run_until_disconnect(request, work)
        if answer is None:
            # The client has left; 499 is what proxies log for a client that disconnected.
            return Response(status_code=499)
        # Encoded in a thread, because a year without data may list tens of thousands of days.
        return await ANSWERS.run(_json, answer)


def entry_answer(version: RuleVersion) -> RuleEntryAnswer:
    """A rule's version in the shape of the answer."""
    return RuleEntryAnswer(
        version.rule.rule_id,
        version.version,
        version.revision,
        from_millis(version.effective_from),
        version.retired,
        rule_to_fields(version.rule),
    )


def simulation_answer(
    wish: SimulationRequest, page: SimulatedPage, following: str | None
) -> SimulationAnswer:
    """A simulation's page in the shape of the answer; `following`: address of the next page."""
    # On incomplete days an episode may be missing, even if the others are sure.
    incomplete = [_incomplete_answer(day) for store in page.stores for day in store.incomplete_days]
    unsure = [result.store_id for result in page.stores if not result.is_certain]
    return SimulationAnswer(
        rule_id=wish.rule_id,
        from_=from_millis(wish.span.start),
        to=from_millis(wish.span.end),
        stores=[result.store_id for result in page.stores],
        episodes=_episodes(page),
        complete=not (incomplete or unsure),
        incomplete=incomplete,
        begun_before=unsure,
        articles=sum(result.articles for result in page.stores),
        next=following,
    )


def _episodes(page: SimulatedPage) -> list[SimulatedEpisodeAnswer]:
    return [
        SimulatedEpisodeAnswer(
            store_id=simulated.store_id,
            subject=simulated.subject,
            rule_version=simulated.episode.version,
            start=from_millis(simulated.episode.start),
            raised=from_millis(simulated.episode.raised),
            end=None if simulated.episode.ended is None else from_millis(simulated.episode.ended),
            value=simulated.value,
            threshold=simulated.threshold,
            complete=simulated.is_complete,
        )
        for store in page.stores
        for simulated in store.episodes
    ]


def _incomplete_answer(day: IncompleteDay) -> IncompleteDayAnswer:
    start, end = from_millis(day.start), from_millis(day.end)
    return IncompleteDayAnswer(
        day.store_id, day.day, start, end, day.incomplete_windows, day.requested_windows
    )


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


def _json(body: Any) -> Response:
    return Response(msgspec.json.encode(body), media_type="application/json")
