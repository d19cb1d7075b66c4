"""The parameters of the routes, as OpenAPI publishes them, and the queries they stand for."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field

from serving.engine.explain import WindowQuestion
from serving.questions.question import MAX_ENTRIES, MAX_STORES, MetricQuestion

# A list stops at its first error, and may not be longer than a list of all stores.
NameList = Annotated[list[str], FailFast(), Field(max_length=MAX_STORES)]


class PageQuery(BaseModel):
    """Parameters of a list."""

    # A misspelt parameter is refused; if it were ignored, its default would answer another query
    # than the client meant.
    model_config = ConfigDict(extra="forbid")
    limit: Annotated[
        int, Field(1_000, ge=1, le=MAX_ENTRIES, description="most entries of one answer")
    ]
    after: Annotated[
        str,
        Field(
            "",
            max_length=1_000,
            description="cursor of a page; taken from `next`, and nothing else is one",
        ),
    ]


class MetricQuery(PageQuery):
    """Parameters of a metric's values; any other is refused."""

    store: Annotated[NameList, Field(description="store ids, repeated or with commas, or `all`")]
    from_: Annotated[
        str,
        Field(
            alias="from",
            description="inclusive: instant with offset, or YYYY-MM-DD for the begin of that day"
            " in tz: midnight, with tz=store the store's `day_starts`",
        ),
    ]
    to: Annotated[str, Field(description="exclusive, as `from`")]
    grain: Annotated[
        Literal["15m", "1h", "1d", "1w"],
        Field("15m", description="length of a row's stretch; weeks begin on Monday"),
    ]
    tz: Annotated[
        str,
        Field("UTC", max_length=64, description="IANA time zone, or `store` for each store's own"),
    ]
    by: Annotated[NameList, Field([], description="dimensions, comma between; see /v1/metrics")]
    as_of: Annotated[
        str | None, Field(None, description="instant with offset: what was published then")
    ]

    @property
    def question(self) -> MetricQuestion:
        """The query, apart from its page."""
        return MetricQuestion(
            self.store,
            self.from_,
            self.to,
            grain=self.grain,
            tz=self.tz,
            by=self.by,
            as_of=self.as_of,
        )


class ReportQuery(BaseModel):
    """Parameters of a report."""

    model_config = ConfigDict(extra="forbid")
    store: Annotated[str, Field(max_length=1_000, description="one store id")]
    from_: Annotated[str, Field(alias="from", description="first day, inclusive: YYYY-MM-DD in tz")]
    to: Annotated[str, Field(description="day after the last one: YYYY-MM-DD in tz")]
    tz: Annotated[
        str, Field("store", max_length=64, description="IANA time zone, or `store` for its own")
    ]
    # The default does not depend on the days, so that an address always means the same query.
    compare: Annotated[
        Literal["before", "like_for_like"],
        Field(
            "before",
            description=(
                "what `previous` is of: as many days just before, or the days of the year before"
                " that these are like, where those follow each other"
            ),
        ),
    ]
    by: Annotated[
        Literal["item", "category"] | None,
        Field(None, description="what `series` is of, of a report by item alone; default item"),
    ]
    top: Annotated[
        int | None,
        Field(
            None,
            ge=1,
            le=1_000,
            description="entries before the others are one, of a report by item; default 20",
        ),
    ]

    @property
    def question(self) -> MetricQuestion:
        """The report's span, as a metric query by days."""
        return MetricQuestion(
            [self.store],
            self.from_,
            self.to,
            grain="1d",
            tz=self.tz,
            by=[],
            as_of=None,
        )


class CalendarQuery(BaseModel):
    """Parameters of a store's calendar."""

    model_config = ConfigDict(extra="forbid")
    from_: Annotated[
        str, Field(alias="from", max_length=1_000, description="first local day: YYYY-MM-DD")
    ]
    to: Annotated[
        str,
        Field(max_length=1_000, description="day after the last one, at most 400 on: YYYY-MM-DD"),
    ]


class SensorQuery(BaseModel):
    """Parameters of what a store's sensors saw."""

    model_config = ConfigDict(extra="forbid")
    from_: Annotated[
        str,
        Field(
            alias="from",
            max_length=1_000,
            description="inclusive: instant with offset, or YYYY-MM-DD for the begin of that day"
            " in tz: midnight, with tz=store the store's `day_starts`",
        ),
    ]
    to: Annotated[str, Field(max_length=1_000, description="exclusive, as `from`")]
    grain: Annotated[
        Literal["15m", "1h", "1d", "1w"], Field("1d", description="length of a stretch")
    ]
    tz: Annotated[
        str, Field("store", max_length=64, description="IANA time zone, or `store` for its own")
    ]

    def question(self, store: str) -> MetricQuestion:
        """The span in a store, as a metric query."""
        return MetricQuestion(
            [store],
            self.from_,
            self.to,
            grain=self.grain,
            tz=self.tz,
            by=[],
            as_of=None,
        )


class ExplainQuery(BaseModel):
    """Parameters of an explanation."""

    model_config = ConfigDict(extra="forbid")
    store: Annotated[str, Field(max_length=1_000, description="one store id")]
    window: Annotated[
        str, Field(max_length=1_000, description="any instant in the window, with offset")
    ]
    family: Annotated[str, Field("sales", description="view family")]

    @property
    def question(self) -> WindowQuestion:
        """The query for one window."""
        return WindowQuestion(self.store, self.window, self.family)
