"""The parameters and bodies of the alert routes, as OpenAPI publishes them."""

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from alerting.alert.resolution import MAX_NAME, MAX_REASON
from alerting.queries.alerts import AlertFilter, AlertSpan
from serving.questions.question import check_years, instant, split_names
from tally.errors import BadQuery
from tally.time.instants import UTC_CLOCK
from web.api.requests.parameters import NameList, PageQuery

_LONGEST = timedelta(days=400)
StoreNames = Annotated[NameList, Field(description="store ids, repeated or with commas, or `all`")]
RuleIds = Annotated[NameList, Field([], description="ids of rules, comma between; default all")]
SeverityNames = Annotated[
    NameList, Field([], description="info, warning, critical, comma between; default all")
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
    def span(self) -> AlertSpan | None:
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
        return AlertSpan(start, end)


class NoQuery(BaseModel):
    """An address without parameters; any is refused."""

    model_config = ConfigDict(extra="forbid")


class StreamQuery(BaseModel):
    """Parameters of the stream of alerts; any other is refused."""

    model_config = ConfigDict(extra="forbid")
    store: Annotated[
        NameList,
        Field(["all"], description="store ids, repeated or with commas; default `all`"),
    ]
    rule: RuleIds
    severity: SeverityNames

    @property
    def alert_filter(self) -> AlertFilter:
        """The filter on alerts, apart from their stores."""
        return AlertFilter(frozenset(split_names(self.rule)), frozenset(split_names(self.severity)))


class AcknowledgeBody(BaseModel):
    """Who takes an alert on; any other field is refused."""

    model_config = ConfigDict(extra="forbid")
    by: Annotated[
        str,
        Field(min_length=1, max_length=MAX_NAME, pattern=r"\S", description="who takes it on"),
    ]


class SnoozeBody(BaseModel):
    """For how long an alert is kept back; any other field is refused."""

    model_config = ConfigDict(extra="forbid")
    minutes: Annotated[
        int, Field(60, ge=0, le=525_600, description="minutes from now on; 0 ends the snooze")
    ]
    by: Annotated[str, Field("", max_length=MAX_NAME, description="who snoozes it")]


class ResolveBody(BaseModel):
    """Why an alert is ended by hand; any other field is refused."""

    model_config = ConfigDict(extra="forbid")
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
