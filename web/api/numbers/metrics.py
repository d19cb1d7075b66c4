"""The routes for the metric catalogue, and for the values of one metric."""

from datetime import date
from typing import Annotated, Literal

from fastapi import FastAPI, Path, Query, Request, Response
from msgspec import UNSET, UnsetType, field

from runtime.http.answers import Problem, Shape, json_response, problem_entry, response_entry
from runtime.http.work_pools import ANSWERS
from schemas.metric import Grain
from serving.questions import catalogue
from web.api.numbers.pages import MetricQuery, Pages
from web.api.requests import shared
from web.api.requests.shared import Complete, CoverageField, Instant, Next, Number, means


class Row(Shape):
    """One stretch of time of one store, or one value of the asked dimensions in it."""

    start: Annotated[Instant, means("inclusive, in the asked zone")]
    end: Annotated[Instant, means("exclusive, in the asked zone")]
    value: Annotated[
        Number, means("in the answer's unit; null: missing, by 0, of no events, or suppressed")
    ]
    events: Annotated[
        int | None,
        means(
            "distinct events of all its windows, of a level of all since the store's"
            " day began; null: missing, or not known"
        ),
    ]
    source: shared.SourceField
    status: shared.StatusField
    complete: Complete
    split: Annotated[
        bool | UnsetType,
        means(
            "true: an interval of a counter lies across the begin or the end, its"
            " persons are divided in whole ones by time"
        ),
    ] = UNSET
    coverage: CoverageField = UNSET
    worst_coverage: Annotated[
        float | UnsetType,
        means("the least share of a counter, where one was not there all the time"),
    ] = UNSET
    worst_sensor: Annotated[str | UnsetType, means("the counter of that share")] = UNSET
    estimated: Annotated[
        bool | UnsetType,
        means(
            "beside a coverage, whether it, or that of one counter, is too low: then never complete"
        ),
    ] = UNSET
    withheld: Annotated[
        Literal["coverage"] | UnsetType,
        means("why there is no value, where that is so by a setting"),
    ] = UNSET
    numerator: Annotated[Number | UnsetType, means("of a ratio, in the unit of its metric")] = UNSET
    denominator: Annotated[Number | UnsetType, means("of a ratio, in the unit of its metric")] = (
        UNSET
    )
    error: Annotated[
        Number | UnsetType,
        means(
            "of uniques and percentiles, as a share of the value: the standard error,"
            " or by how much the true one may be larger; 0: exact; null: missing"
        ),
    ] = UNSET
    by: Annotated[
        dict[str, str | None] | UnsetType, means("dimension to its value, where asked")
    ] = UNSET
    suppressed: Annotated[
        bool | UnsetType, means("where small cells are withheld: whether this one is")
    ] = UNSET


class Series(Shape):
    """The rows of one store."""

    store: Annotated[str, means("its id")]
    rows: Annotated[list[Row], means("by time ascending")]


class SpeedState(Shape):
    """How far the speed layer has read."""

    # Partitions are numbers, but the keys of a JSON object are strings.
    offsets: Annotated[
        dict[str, int],
        means("partition, or of several families family-partition, to first unread offset"),
    ]
    late_since_pin: Annotated[
        int,
        means("late records of all stores since the quarter hour of the oldest pin"),
    ]


class TillNumbering(Shape):
    """A till with receipts of a day whose number was used before; its numbers may begin again."""

    store: Annotated[str, means("its id")]
    till: Annotated[str, means("its id, `vendor_fiscal_module` of its receipts")]
    day: Annotated[date, means("UTC")]
    conflicts: Annotated[int, means("records that bear a number used before, with other content")]
    records: Annotated[int, means("all records of the till on that day")]


class LostRecords(Shape):
    """Records that were gone before they were read, and that the answer may lack."""

    topic: Annotated[str, means("name of the Kafka topic")]
    partition: Annotated[int, means("number of its partition")]
    from_offset: Annotated[int, means("inclusive")]
    until_offset: Annotated[int, means("exclusive")]
    first_arrival: Annotated[Instant, means("none of them arrived before, UTC")]
    last_arrival: Annotated[Instant, means("none of them arrived after, UTC")]
    reason: Annotated[str, means("why they are gone")]


class _Envelope(Shape):
    metric: Annotated[str, means("id of the metric")]
    name: Annotated[str, means("name for people")]
    unit: Annotated[str, means("unit of each value")]
    # Not instants: with `tz=store` each store begins at its own, so they are answered as asked.
    from_: Annotated[
        str, means("inclusive, in the zone; as asked where each store has its own")
    ] = field(name="from")
    to: Annotated[str, means("exclusive, likewise")]
    grain: Annotated[Grain, means("length of a row's stretch of time")]
    tz: Annotated[str, means("IANA time zone, or `store`")]
    by: Annotated[list[str], means("the asked dimensions")]
    as_of: Annotated[str | None, means("as asked")]
    currency: Annotated[str | None, means("ISO 4217, of money that is not split by currency")]
    source: shared.SourceField
    status: shared.StatusField
    complete: Complete
    through: Annotated[
        Instant | None,
        means("every record that had arrived by then is counted, UTC; null: not known"),
    ]
    master_behind_since: Annotated[
        Instant | None, means("since when nothing is final, UTC; null while the master keeps up")
    ]
    numbering: Annotated[
        list[TillNumbering], means("tills whose conflicts keep their days from being final")
    ]
    gaps: Annotated[list[LostRecords], means("lost records that the asked stretch may lack")]
    speed: Annotated[SpeedState | None, means("null with `as_of`: it keeps no history")]
    next: Next


class OneStoreAnswer(_Envelope):
    """A metric of the one store that was named."""

    store: Annotated[str, means("its id")]
    rows: Annotated[list[Row], means("by time ascending")]
    coverage: CoverageField = UNSET


class SeriesAnswer(_Envelope):
    """A metric of several stores, in the order asked; of all, by id ascending."""

    # Null instead of absent, so that a reader of the envelope need not know which shape it is.
    store: Annotated[None, means("there are several")]
    series: Annotated[list[Series], means("one for each store of this page")]
    coverage: CoverageField = UNSET


_CHANGED = (
    "a rebuild has published since the first page; its `next` is the address to begin again at"
)


class GenerationChanged(Problem):
    """A rebuild has published between two pages of an answer."""

    next: Annotated[str, means("address to begin again at")]


class MetricEntry(Shape):
    """One metric of the catalogue."""

    id: Annotated[str, means("its name in addresses")]
    name: Annotated[str, means("name for people")]
    unit: Annotated[str, means("unit of a value; `minor` is of the answer's currency")]
    kind: Annotated[
        Literal[
            "additive", "ratio", "minimum", "maximum", "uniques", "percentile", "level", "stock"
        ],
        means(
            "how a value is made; only additive ones of two windows add up; a level is"
            " that at the end of the stretch, since the store's day began, a stock since the last"
            " count"
        ),
    ]
    families: Annotated[list[str], means("view families that it is computed from")]
    formula: Annotated[str, means("for people")]
    variants: Annotated[list[str], means("metrics that others give the same name")]
    by: Annotated[list[str], means("dimensions that it may be split by")]
    grains: Annotated[list[str], means("lengths of time that it is answered for")]
    meaning: Annotated[str, means("what it says, with its variant named")]
    error: Annotated[
        str | UnsetType, means("how far an estimate may be off; not there: values are exact")
    ] = UNSET


class MetricList(Shape):
    """A page of the metric catalogue, by id ascending."""

    metrics: Annotated[list[MetricEntry], means("at most `limit`")]
    next: Next


def add_metric_routes(app: FastAPI, pages: Pages) -> None:
    """Add the routes for the catalogue and for one metric."""

    @app.get(
        "/v1/metrics",
        summary="The metric catalogue",
        responses={
            200: response_entry("a page of the catalogue", MetricList),
            422: shared.REFUSALS[422],
        },
    )
    async def metric_list(
        query: Annotated[shared.PageQuery, Query()], request: Request
    ) -> Response:
        entries = {entry["id"]: entry for entry in catalogue.entries()}
        ids, following = shared.cut_list(entries, query, request)
        return json_response({"metrics": [entries[name] for name in ids], "next": following})

    @app.get(
        "/v1/metrics/{metric_id}",
        summary="Values of a metric by store and stretch of time",
        responses={
            **shared.declare(
                "`rows` of one store that was named, else `series`",
                OneStoreAnswer,
                SeriesAnswer,
                unknown="there is no such metric or store",
            ),
            409: problem_entry(_CHANGED, GenerationChanged),
        },
    )
    async def metric(
        metric_id: Annotated[str, Path(description="id of the catalogue")],
        query: Annotated[MetricQuery, Query()],
        request: Request,
    ) -> Response:
        body = await pages.page(metric_id, query, request)
        # A page has up to 10,000 rows, and encoding them in the event loop would delay all other
        # answers.
        return await ANSWERS.run(json_response, body)
