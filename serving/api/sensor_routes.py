"""The route of a store's sensors: which of them were silent, and when."""

from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias
from zoneinfo import ZoneInfo

import msgspec
from fastapi import FastAPI, Path, Query, Response

from runtime.work_pools import ANSWERS
from serving.api import described
from serving.api.pages import Pages
from serving.api.parameters import SensorQuery
from serving.query import catalogue, cells
from serving.query.answer import Query as MetricQuery
from serving.query.coverage import SensorName, Watched
from serving.query.instants import format_instant
from serving.query.question import MOST_ENTRIES, StoreSlots, stretches
from tally.errors import BadQuery

# Fields by name.
Shown: TypeAlias = dict[str, Any]


def add_sensor_routes(app: FastAPI, pages: Pages) -> None:
    """The sensors of a store."""

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
        asked = await ANSWERS.run(stretches, question, store, pages.registry)
        body = {
            "store": store,
            "from": format_instant(asked.slots[0].start, asked.zone),
            "to": format_instant(asked.slots[-1].end, asked.zone),
            "tz": asked.tz,
            "grain": query.grain,
            "threshold": pages.answerer.coverage.threshold,
            "sensors": await _sensors(asked, pages),
        }
        return Response(msgspec.json.encode(body), media_type="application/json")


async def _sensors(asked: StoreSlots, pages: Pages) -> list[Shown]:
    # Any metric of a family reads its windows.
    metrics = catalogue.of_one_family()
    families = [one.families[0] for one in metrics.values()]
    roster = pages.answerer.roster(pages.registry.store(asked.store_id), families)
    rows = len(asked.slots) * sum(map(len, roster.by_family.values()))
    if rows > MOST_ENTRIES:
        raise BadQuery(
            "grain",
            f"grain: {rows:,} stretches of sensors are more than {MOST_ENTRIES:,};"
            " ask for less time, or for a coarser grain",
        )
    found: list[Shown] = []
    for family, listed in sorted(roster.by_family.items()):
        question = MetricQuery(metrics[family], [asked], (), None)
        (answer,) = await pages.answerer.read(question)
        # One that was there, then not, then again is one.
        for name in sorted({one.name for one in listed}):
            found.append(_sensor(name, answer.found, asked.zone))
    return found


def _sensor(name: SensorName, found: Sequence[cells.Cell], zone: ZoneInfo) -> Shown:
    whole, rows = Watched(), []
    for cell in found:
        seen = cell.watch.sensors.get(name, Watched())
        whole = whole.plus(seen)
        # Each boundary by the same clock as the answer's own.
        start, end = (format_instant(one, zone) for one in cell.slot)
        rows.append({"start": start, "end": end, **_seen(seen)})
    return {"family": name.family, "sensor": name.sensor, **_seen(whole), "rows": rows}


def _seen(seen: Watched) -> Shown:
    return {
        "expected_seconds": seen.expected,
        "observed_seconds": seen.observed,
        "coverage": seen.share,
    }
