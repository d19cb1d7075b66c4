"""The routes for the list of alerts, and for one alert."""

from datetime import timedelta
from typing import Annotated, Literal

from fastapi import FastAPI, Path, Query, Request, Response
from msgspec import Meta
from pydantic import Field

from alerting.queries.alerts import (
    AlertFilter,
    AlertPosition,
    AlertQueryService,
    AlertSearch,
    ListedAlert,
)
from runtime.http.openapi import Shape, problem_entry, response_entry
from runtime.http.problem import json_response
from runtime.http.work_pools import ANSWERS
from serving.questions.known_stores import KnownStores
from serving.questions.question import check_years, instant, split_names
from tally.alerts.message import Alert, EpisodeSpan
from tally.errors import BadQuery
from tally.time.instants import UTC_CLOCK
from tally.time.windows import TimeRange
from web.api.requests import cursor
from web.api.requests.shared import (
    NO_STORE,
    REFUSALS,
    NameList,
    Next,
    PageQuery,
    Parameters,
    StoreNames,
    list_stores,
)

_LONGEST = timedelta(days=400)
PathAlert = Annotated[str, Path(description="`alert_id` of its messages")]
NO_ALERT = problem_entry("there is no such alert")
RuleIds = Annotated[NameList, Field([], description="ids of rules, comma between; default all")]
SeverityNames = Annotated[
    NameList, Field([], description="info, warning, critical, comma between; default all")
]


class AlertList(Shape):
    """A page of alerts, each in its last state, newest first."""

    alerts: Annotated[
        list[ListedAlert],
        Meta(description="at most `limit`; fewer, even none, where `next` goes on"),
    ]
    next: Next


# The messages are the records of the topic, so a subscriber already knows their fields.
class AlertAnswer(Shape):
    """One alert with its whole life."""

    alert: Annotated[ListedAlert, Meta(description="in its last state")]
    episode: Annotated[EpisodeSpan, Meta(description="as it is known now, its end included")]
    states: Annotated[
        list[Alert], Meta(description="each message, by state; after an erasure the last one alone")
    ]
    ends: Annotated[
        list[Alert], Meta(description="each message of the clears that end it, by when they began")
    ]


class AlertQuery(PageQuery):
    """Parameters of the list of alerts; any other is refused."""

    store: StoreNames
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
    from_: Annotated[
        str,
        Field(
            "",
            alias="from",
            max_length=100,
            description="raised at or after: instant with offset, or YYYY-MM-DD (UTC);"
            " needed unless open=true",
        ),
    ]
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
        """The span in which alerts were raised; None if open=true is asked for without a span.

        Raises BadQuery.
        """
        # Open alerts are those of now, so a span would not limit their cost and is not needed.
        if self.open and not self.from_ and not self.to:
            return None
        # Days are UTC days, by which alerts are stored, because each store has its own time zone.
        start, end = instant(self.from_, "from", UTC_CLOCK), instant(self.to, "to", UTC_CLOCK)
        check_years("from", start)
        check_years("to", end)
        if start >= end:
            raise BadQuery("from", f"from: {self.from_} is not before to: {self.to}")
        if end - start > _LONGEST:
            raise BadQuery("to", f"to: at most {_LONGEST.days} days on; ask for less")
        return TimeRange(start, end)


def add_alert_routes(app: FastAPI, alert_queries: AlertQueryService, stores: KnownStores) -> None:
    """Add the routes for the list of alerts, and for one alert."""

    @app.get(
        "/v1/alerts",
        summary="Alerts, newest first",
        responses={
            **REFUSALS,
            200: response_entry("a page of alerts, each in its last state", AlertList),
            404: NO_STORE,
        },
    )
    async def alerts(query: Annotated[AlertQuery, Query()], request: Request) -> Response:
        # An invalid query is refused before any store is looked up.
        span, last = query.span, cursor.decode(query.after, cursor.AlertCursor)
        after = AlertPosition(last.raised, last.alert) if last else None
        store_ids = await list_stores(stores, query.store)
        question = AlertSearch(store_ids, query.alert_filter, span, query.open)
        found, end = await alert_queries.read_page(question, after, query.limit)
        following = cursor.next_address(request, cursor.AlertCursor(*end) if end else None)
        return await ANSWERS.run(json_response, {"alerts": found, "next": following})

    @app.get(
        "/v1/alerts/{alert_id}",
        summary="One alert and its life",
        responses={
            **REFUSALS,
            200: response_entry("the alert and all its published states", AlertAnswer),
            404: NO_ALERT,
        },
    )
    async def alert(alert_id: PathAlert, _query: Annotated[Parameters, Query()]) -> Response:
        life = await alert_queries.read_life(alert_id)
        states, ends = [*life.states], [*life.ends]
        return json_response(AlertAnswer(life.last, life.episode, states, ends))
