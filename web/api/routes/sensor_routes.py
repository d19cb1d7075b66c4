"""The route for a store's sensors: which of them were silent, and when."""

from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias
from zoneinfo import ZoneInfo

import msgspec
from fastapi import FastAPI, Path, Query, Response

from runtime.http.work_pools import ANSWERS
from serving.cells import cells
from serving.cells.coverage import SensorName, SensorSeconds
from serving.engine.page_query import Query as MetricQuery
from serving.metrics import catalogue
from serving.questions.question import MAX_ENTRIES, StoreSlots, cut_slots
from tally.errors import BadQuery
from tally.time.instants import format_instant
from web.api.answers import described
from web.api.requests.pages import Pages
from web.api.requests.parameters import SensorQuery

# The fields of an answer by name.
JsonFields: TypeAlias = dict[str, Any]


def add_sensor_routes(app: FastAPI, pages: Pages) -> None:
    """Add the route for the sensors of a store."""

    @app.get(
        "/v1/stores/{store}/sensors",
        summary="For how long each sensor of a store was there, beside how long it was expected",
        responses=described.SENSORS,
    )
    async def sensors(
        store: Annotated[str, Path(description="its id")],
        query: Annotated[SensorQuery, Query()],
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
        return Response(msgspec.json.encode(body), media_type="application/json")


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
        question = MetricQuery(metrics[family], [store_slots], (), None)
        (answer,) = await pages.query_engine.read(question)
        # A sensor that was removed and listed again counts as one.
        for name in sorted({sensor.name for sensor in listed}):
            sensors.append(_sensor(name, answer.result_cells, store_slots.zone))
    return sensors


def _sensor(name: SensorName, served_cells: Sequence[cells.Cell], zone: ZoneInfo) -> JsonFields:
    whole, rows = SensorSeconds(), []
    for cell in served_cells:
        seen = cell.sensor_coverage.sensors.get(name, SensorSeconds())
        whole = whole.plus(seen)
        # Each boundary is in the same time zone as the answer's own.
        start, end = (format_instant(instant, zone) for instant in cell.slot)
        rows.append({"start": start, "end": end, **_coverage_fields(seen)})
    return {"family": name.family, "sensor": name.sensor, **_coverage_fields(whole), "rows": rows}


def _coverage_fields(seen: SensorSeconds) -> JsonFields:
    return {
        "expected_seconds": seen.expected,
        "observed_seconds": seen.observed,
        "coverage": seen.share,
    }
