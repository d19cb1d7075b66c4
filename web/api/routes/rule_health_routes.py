"""The route that answers whether a rule can be judged, store by store."""

from dataclasses import dataclass
from typing import Annotated

import msgspec
from fastapi import FastAPI, Path, Query, Request, Response

from alerting.health.service import RuleHealthService
from alerting.health.store import StoreHealth
from serving.questions.known_stores import KnownStores
from serving.questions.question import parse_stores
from tally.time.instants import from_millis
from web.api.answers import described
from web.api.answers.rule_answers import RuleHealthAnswer, StoreHealthAnswer
from web.api.requests import cursor
from web.api.requests.rule_parameters import RuleHealthQuery


@dataclass(frozen=True)
class RuleHealthRoutes:
    """The parts that the route works with."""

    health_service: RuleHealthService
    stores: KnownStores

    async def page(
        self, rule_id: str, query: RuleHealthQuery, request: Request
    ) -> RuleHealthAnswer:
        """One page of stores. Raises BadQuery, UnknownName, ViewsUnreachable."""
        last = cursor.decode(query.after, cursor.EntryCursor)
        named = parse_stores(query.store)
        if named is not None:
            await self.stores.check(named)
        ids = await self.stores.all_ids() if named is None else named
        page = await self.health_service.read_page(
            rule_id, ids, last.entry if last else "", query.limit
        )
        following = cursor.EntryCursor(page.after) if page.after else None
        parameters = request.query_params.multi_items()
        return RuleHealthAnswer(
            rule_id=rule_id,
            version=page.version.version if page.version else None,
            stores=[_store(health) for health in page.stores],
            next=cursor.address(request.url.path, parameters, following) if following else None,
        )


def add_rule_health_routes(app: FastAPI, routes: RuleHealthRoutes) -> None:
    """Add the route for the health of one rule."""

    @app.get(
        "/v1/rules/{rule_id}/health",
        summary="Whether a rule can be judged, store by store",
        responses=described.RULE_HEALTH,
    )
    async def health(
        rule_id: Annotated[str, Path(description="`rule_id` of its file")],
        query: Annotated[RuleHealthQuery, Query()],
        request: Request,
    ) -> Response:
        page = await routes.page(rule_id, query, request)
        return Response(msgspec.json.encode(page), media_type="application/json")


def _store(health: StoreHealth) -> StoreHealthAnswer:
    return StoreHealthAnswer(
        store_id=health.store_id,
        judged=health.reason is None,
        reason=health.reason,
        since=None if health.since is None else from_millis(health.since),
        earlier=health.is_earlier,
    )
