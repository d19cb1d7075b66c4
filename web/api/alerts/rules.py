"""The routes for the list of rules, the versions of one, and whether it can be evaluated."""

from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request, Response
from pydantic import Field

from alerting.health.service import RuleHealthService
from alerting.health.store import StoreHealth, UnevaluatedReason
from alerting.queries.known_rules import RuleRepository
from alerting.rules.rule import RuleVersion, rule_to_fields
from runtime.http.answers import Responses, Shape, json_response, problem_entry
from serving.questions.known_stores import KnownStores
from tally.time.instants import from_millis
from web.api.requests import shared
from web.api.requests.shared import REFUSALS, Instant, Next, PageQuery, declare, last_entry, means

PathRule = Annotated[str, Path(description="`rule_id` of its file")]
# Rules are in Kafka, so they may be unreachable while the tables can be read.
RULE_REFUSALS: Responses = {
    **REFUSALS,
    503: problem_entry("the rules or the views cannot be read; `Retry-After` says when to ask"),
}
NO_RULE_OR_STORE = "there is no such rule or store"


class RuleEntryAnswer(Shape):
    """One version of a rule."""

    rule_id: Annotated[str, means("the rule")]
    version: Annotated[int, means("number of the version, from 1 on")]
    revision: Annotated[
        int, means("how often the presentation of the version's alerts was changed")
    ]
    effective_from: Annotated[Instant, means("start of the first quarter hour that it judges")]
    retired: Annotated[bool, means("from then on nothing is called for")]
    # A rule has no shape of its own here, because rule.schema.json, which checks rule files,
    # describes it in full.
    rule: Annotated[
        dict[str, Any], means("every field, as schemas/rules/rule.schema.json has them")
    ]


class RuleList(Shape):
    """A page of rules, each in its newest version, by id."""

    rules: Annotated[list[RuleEntryAnswer], means("at most `limit`; retired ones too")]
    next: Next


class RuleVersionsAnswer(Shape):
    """All versions of one rule."""

    rule_id: Annotated[str, means("the rule")]
    versions: Annotated[list[RuleEntryAnswer], means("ascending")]


class StoreHealthAnswer(Shape):
    """Whether a rule is judged in one store, by its newest closed quarter hours."""

    store_id: Annotated[str, means("the store")]
    judged: Annotated[bool, means("whether the rule says something of the store now")]
    reason: Annotated[
        UnevaluatedReason | None,
        means("why it cannot be judged; null: it is. Each is in docs/alerts.md"),
    ]
    since: Annotated[
        Instant | None, means("since when it cannot be judged; null: it is, or always was so")
    ]
    earlier: Annotated[
        bool, means("it may have begun before `since`: 14 days are looked at, of stock 2")
    ]


class RuleHealthAnswer(Shape):
    """Whether a rule can be judged, by store."""

    rule_id: Annotated[str, means("the rule")]
    version: Annotated[
        int | None, means("the version in force; null: none is, and no store is listed")
    ]
    stores: Annotated[
        list[StoreHealthAnswer],
        means("those that the rule is about today, by id; at most 100 a page"),
    ]
    next: Next


class RuleHealthQuery(PageQuery):
    """Parameters of a rule's health; any other is refused."""

    store: Annotated[
        list[str],
        Field(["all"], description="store ids, or `all`; of them those that the rule is about"),
    ]


def add_rule_routes(app: FastAPI, repository: RuleRepository) -> None:
    """Add the routes for the list of rules, and for the versions of one."""

    @app.get(
        "/v1/rules",
        summary="Rules, each in its newest version",
        responses=declare("a page of rules, by id", RuleList, refusals=RULE_REFUSALS),
    )
    async def rules(query: Annotated[PageQuery, Query()], request: Request) -> Response:
        # A wrong cursor is refused before the rules are read.
        last_entry(query.after)
        chains = (await repository.read()).versions
        shown, following = shared.cut_list(chains, query, request)
        # Each entry has a rule of some hundred bytes, so encoding a page is fast.
        newest = [_entry_answer(chains[rule_id][-1]) for rule_id in shown]
        return json_response(RuleList(newest, following))

    @app.get(
        "/v1/rules/{rule_id}/versions",
        summary="All versions of a rule",
        responses=declare(
            "its versions, ascending",
            RuleVersionsAnswer,
            unknown="there is no such rule",
            refusals=RULE_REFUSALS,
        ),
    )
    async def versions(rule_id: PathRule, _query: shared.NoQuery) -> Response:
        found = await repository.versions(rule_id)
        return json_response(RuleVersionsAnswer(rule_id, [*map(_entry_answer, found)]))


def add_rule_health_route(app: FastAPI, service: RuleHealthService, stores: KnownStores) -> None:
    """Add the route for the health of one rule."""

    @app.get(
        "/v1/rules/{rule_id}/health",
        summary="Whether a rule can be judged, store by store",
        responses=declare(
            "some stores, each with the reason why it is not judged",
            RuleHealthAnswer,
            unknown=NO_RULE_OR_STORE,
            refusals=RULE_REFUSALS,
        ),
    )
    async def health(
        rule_id: PathRule, query: Annotated[RuleHealthQuery, Query()], request: Request
    ) -> Response:
        after = last_entry(query.after)
        store_ids = await shared.list_stores(stores, query.store)
        page = await service.read_page(rule_id, store_ids, after, query.limit)
        version = page.version.version if page.version else None
        following = shared.next_address(
            request, shared.EntryCursor(page.after) if page.after else None
        )
        answers = [*map(_health_answer, page.stores)]
        return json_response(RuleHealthAnswer(rule_id, version, answers, following))


def _entry_answer(version: RuleVersion) -> RuleEntryAnswer:
    return RuleEntryAnswer(
        version.rule.rule_id,
        version.version,
        version.revision,
        from_millis(version.effective_from),
        version.retired,
        rule_to_fields(version.rule),
    )


def _health_answer(health: StoreHealth) -> StoreHealthAnswer:
    return StoreHealthAnswer(
        store_id=health.store_id,
        judged=health.reason is None,
        reason=health.reason,
        since=None if health.since is None else from_millis(health.since),
        earlier=health.is_earlier,
    )
