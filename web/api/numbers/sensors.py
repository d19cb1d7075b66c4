"""The route for a store's sensors: which of them were silent, and when."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias
from zoneinfo import ZoneInfo

from fastapi import FastAPI, Path, Query, Response
from msgspec import Meta, field
from pydantic import Field

from runtime.http.openapi import Shape, response_entry
from runtime.http.problem import json_response
from runtime.http.work_pools import ANSWERS
from serving.cells import cells
from serving.cells.coverage import SensorName, SensorSeconds
from serving.engine.page_query import Query as FamilyQuery
from serving.metrics import catalogue
from serving.questions.question import MAX_ENTRIES, MetricQuestion, StoreSlots, cut_slots
from tally.errors import BadQuery
from tally.time.instants import format_instant
from web.api.numbers.pages import Pages
from web.api.requests.shared import NO_STORE, REFUSALS, Instant, Parameters

ExpectedSeconds = Annotated[
    int, Meta(description="seconds of the open hours, of windows with an answer")
]
ObservedSeconds = Annotated[int, Meta(description="those of them for which it was there")]
Share = Annotated[float | None, Meta(description="observed of expected; null: none is expected")]
# The fields of an answer by name.
JsonFields: TypeAlias = dict[str, Any]


class SensorStretch(Shape):
    """One stretch of time of one sensor."""

    start: Annotated[Instant, Meta(description="inclusive")]
    end: Annotated[Instant, Meta(description="exclusive")]
    expected_seconds: ExpectedSeconds
    observed_seconds: ObservedSeconds
    coverage: Share


class SensorCoverage(Shape):
    """One sensor: a people counter or an access point."""

    family: Annotated[str, Meta(description="view family that it tells of")]
    sensor: Annotated[str, Meta(description="its name in records")]
    expected_seconds: ExpectedSeconds
    observed_seconds: ObservedSeconds
    coverage: Share
    rows: Annotated[list[SensorStretch], Meta(description="by time ascending")]


class SensorAnswer(Shape):
    """For how long each sensor of a store was there, beside how long it should have been."""

    store: Annotated[str, Meta(description="its id")]
    from_: Annotated[Instant, Meta(description="inclusive")] = field(name="from")
    to: Annotated[Instant, Meta(description="exclusive")]
    tz: Annotated[str, Meta(description="IANA time zone of the instants")]
    grain: Annotated[str, Meta(description="length of a stretch")]
    threshold: Annotated[float, Meta(description="the share from which on a number is complete")]
    sensors: Annotated[list[SensorCoverage], Meta(description="by family and name")]


class SensorQuery(Parameters):
    """Parameters of what a store's sensors saw."""

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
            self.grain,
            self.tz,
            by=[],
            as_of=None,
        )


def add_sensor_routes(app: FastAPI, pages: Pages) -> None:
    """Add the route for the sensors of a store."""

    @app.get(
        "/v1/stores/{store}/sensors",
        summary="For how long each sensor of a store was there, beside how long it was expected",
        responses={
            **REFUSALS,
            200: response_entry("each sensor of the stores file, by family and name", SensorAnswer),
            404: NO_STORE,
        },
    )
    async def sensors(
        store: Annotated[str, Path(description="its id")], query: Annotated[SensorQuery, Query()]
    ) -> Response:
        await pages.stores.check([store])
        question = query.question(store)
        store_slots = await ANSWERS.run(cut_slots, question, store, pages.registry)
        body = {
            "store": store,
            "from": format_instant(store_slots.slots[0].start, store_slots.zone),
            "to": format_instant(store_slots.slots[-1].end, store_slots.zone),
            "tz": store_slots.tz,
            "grain": query.grain,
            "threshold": pages.query_engine.reader.coverage.threshold,
            "sensors": await _sensors(store_slots, pages),
        }
        return json_response(body)


async def _sensors(store_slots: StoreSlots, pages: Pages) -> list[JsonFields]:
    # Any metric of a family reads the windows of that family.
    metrics = catalogue.single_family_metrics()
    families = [metric.families[0] for metric in metrics.values()]
    roster = pages.query_engine.reader.roster(pages.registry.store(store_slots.store_id), families)
    rows = len(store_slots.slots) * sum(map(len, roster.by_family.values()))
    if rows > MAX_ENTRIES:
        raise BadQuery(
            "grain",
            f"grain: {rows:,} stretches of sensors are more than {MAX_ENTRIES:,};"
            " ask for less time, or for a coarser grain",
        )
    sensors: list[JsonFields] = []
    for family, listed in sorted(roster.by_family.items()):
        question = FamilyQuery(metrics[family], [store_slots], (), None)
        (answer,) = await pages.query_engine.read(question)
        # A sensor that was removed and listed again counts as one.
        for name in sorted({sensor.name for sensor in listed}):
            sensors.append(_sensor(name, answer.result_cells, store_slots.zone))
    return sensors


def _sensor(name: SensorName, served_cells: Sequence[cells.Cell], zone: ZoneInfo) -> JsonFields:
    whole, rows = SensorSeconds(), []
    for cell in served_cells:
        seconds = cell.sensor_coverage.sensors.get(name, SensorSeconds())
        whole = whole.plus(seconds)
        # Each boundary is in the same time zone as the answer's own.
        start, end = (format_instant(instant, zone) for instant in cell.slot)
        rows.append({"start": start, "end": end, **_coverage_fields(seconds)})
    return {"family": name.family, "sensor": name.sensor, **_coverage_fields(whole), "rows": rows}


def _coverage_fields(seconds: SensorSeconds) -> JsonFields:
    return {
        "expected_seconds": seconds.expected,
        "observed_seconds": seconds.observed,
        "coverage": seconds.share,
    }
