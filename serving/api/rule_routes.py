"""The routes of rules: the list, the versions of one, and what one calls for over some days."""

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from fastapi import Body, FastAPI, Path, Query, Request, Response

from runtime.rules.catalogue import rule_catalogue
from runtime.work_pools import ANSWERS
from serving.alerts.simulation.desk import SimulationDesk, SimulationWish
from serving.alerts.simulation.findings import IncompleteDay
from serving.alerts.simulation.simulator import SimulatedPage
from serving.api import cursor, described
from serving.api.alert_parameters import NoQuery
from serving.api.disconnects import until_disconnected
from serving.api.parameters import PageQuery
from serving.api.rule_answers import (
    AgainstLive,
    DifferenceAnswer,
    IncompleteDayAnswer,
    RuleEntryAnswer,
    RuleList,
    RuleVersionsAnswer,
    SimulatedEpisodeAnswer,
    SimulationAnswer,
)
from serving.api.rule_parameters import SimulationBody, SimulationPageQuery
from serving.query.known_stores import KnownStores
from serving.query.question import named_stores
from tally.alerts.rule import Rule, RuleVersion, told_rule
from tally.alerts.rule_file import checked_rule
from tally.errors import BadQuery, BadRule
from tally.instants import from_millis

_RULE_ID = Path(description="`rule_id` of its file")


@dataclass(frozen=True)
class RuleRoutes:
    """What the routes work with."""

    desk: SimulationDesk
    stores: KnownStores

    async def page(self, query: PageQuery, request: Request) -> RuleList:
        """One page of the list. Raises BadQuery, ViewsUnreachable."""
        last = cursor.cursor_of(query.after, cursor.Entry)
        chains = (await self.desk.known.read()).chains
        # By id and not by number: a rule that is new since the last page moves none of the others.
        left = sorted(one for one in chains if last is None or one > last.entry)
        shown = left[: query.limit]
        more = cursor.Entry(shown[-1]) if len(left) > len(shown) else None
        asked = request.query_params.multi_items()
        address = cursor.address(request.url.path, asked, more) if more else None
        return RuleList([entry_answer(chains[one][-1]) for one in shown], address)

    async def simulated(
        self, rule_id: str, body: SimulationBody, after: str, path: str
    ) -> SimulationAnswer:
        """One page of a simulation. Raises BadQuery, UnknownName, ViewsUnreachable."""
        last = cursor.cursor_of(after, cursor.Entry)
        # First: what nobody can answer is refused before a store is looked up.
        span = body.span
        draft = await ANSWERS.run(_draft, rule_id, body.rule)
        named = named_stores(body.store)
        if named is not None:
            await self.stores.check(named)
        wish = SimulationWish(
            rule_id,
            span,
            None if named is None else frozenset(named),
            draft,
            body.against == "live",
        )
        page = await self.desk.page(wish, last.entry if last else "")
        more = cursor.Entry(page.after) if page.after else None
        address = cursor.address(path, [], more) if more else None
        return simulation_answer(wish, page, address)


def add_rule_routes(app: FastAPI, routes: RuleRoutes) -> None:
    """The rules, the versions of one, and its simulation."""

    @app.get("/v1/rules", summary="Rules, each in its newest version", responses=described.RULES)
    async def rules(query: Annotated[PageQuery, Query()], request: Request) -> Response:
        # Each has a rule of some hundred bytes: a page is soon written down.
        return _json(await routes.page(query, request))

    @app.get(
        "/v1/rules/{rule_id}/versions",
        summary="All versions of a rule",
        responses=described.RULE_VERSIONS,
    )
    async def versions(
        rule_id: Annotated[str, _RULE_ID], _query: Annotated[NoQuery, Query()]
    ) -> Response:
        found = await routes.desk.known.versions(rule_id)
        return _json(RuleVersionsAnswer(rule_id, [entry_answer(one) for one in found]))

    @app.post(
        "/v1/rules/{rule_id}/simulate",
        summary="What a rule calls for over days that have been; it tells nobody",
        responses=described.SIMULATION,
    )
    async def simulate(
        rule_id: Annotated[str, _RULE_ID],
        query: Annotated[SimulationPageQuery, Query()],
        body: Annotated[SimulationBody, Body()],
        request: Request,
    ) -> Response:
        work = routes.simulated(rule_id, body, query.after, request.url.path)
        found = await until_disconnected(request, work)
        if found is None:
            # Nobody reads it; 499 is what proxies log of a client that hung up.
            return Response(status_code=499)
        # Of a silent year it is tens of thousands of days.
        return await ANSWERS.run(_json, found)


def entry_answer(one: RuleVersion) -> RuleEntryAnswer:
    """The version as it is answered."""
    return RuleEntryAnswer(
        one.rule.rule_id,
        one.version,
        one.revision,
        from_millis(one.effective_from),
        one.retired,
        told_rule(one.rule),
    )


def simulation_answer(
    wish: SimulationWish, page: SimulatedPage, following: str | None
) -> SimulationAnswer:
    """The page as it is answered; `following`: address of the one behind it."""
    # Of these days it may be that an episode is missing, however sure the others are.
    incomplete = [_incomplete(one) for store in page.stores for one in store.incomplete]
    unsure = [one.store_id for one in page.stores if not one.is_sure]
    return SimulationAnswer(
        rule_id=wish.rule_id,
        from_=from_millis(wish.span.start),
        to=from_millis(wish.span.end),
        stores=[one.store_id for one in page.stores],
        episodes=_episodes(page),
        complete=not (incomplete or unsure),
        incomplete=incomplete,
        begun_before=unsure,
        articles=sum(one.articles for one in page.stores),
        against=_against(page) if wish.as_told else None,
        next=following,
    )


def _episodes(page: SimulatedPage) -> list[SimulatedEpisodeAnswer]:
    return [
        SimulatedEpisodeAnswer(
            store_id=one.store_id,
            subject=one.subject,
            rule_version=one.episode.version,
            start=from_millis(one.episode.start),
            raised=from_millis(one.episode.raised),
            end=None if one.episode.ended is None else from_millis(one.episode.ended),
            value=one.value,
            threshold=one.threshold,
            complete=one.is_complete,
        )
        for store in page.stores
        for one in store.episodes
    ]


def _incomplete(one: IncompleteDay) -> IncompleteDayAnswer:
    start, end = from_millis(one.start), from_millis(one.end)
    return IncompleteDayAnswer(one.store_id, one.day, start, end, one.windows, one.of)


def _against(page: SimulatedPage) -> AgainstLive:
    comparisons = page.told.values()
    return AgainstLive(
        compared=sum(one.compared for one in comparisons),
        left_out=sum(one.left_out for one in comparisons),
        differences=[
            DifferenceAnswer(*place, one.kind, one.edge, from_millis(one.window), one.alert_id)
            for place, comparison in page.told.items()
            for one in comparison.differences
        ],
        unjudged=[*page.unjudged],
    )


def _draft(rule_id: str, told: dict[str, Any] | None) -> Rule | None:
    """The rule of the body. Raises BadQuery with all that is wrong with it."""
    if told is None:
        return None
    # By the checks of files: what could not be applied says nothing of what would have been told.
    try:
        rule = checked_rule(told, rule_catalogue())
    except BadRule as error:
        raise BadQuery("rule", "; ".join(f"rule: {one}" for one in error.problems)) from error
    if rule.rule_id != rule_id:
        raise BadQuery("rule", f"rule: rule_id: it is not that of the address, {rule_id[:64]}")
    return rule


def _json(body: Any) -> Response:
    return Response(msgspec.json.encode(body), media_type="application/json")
