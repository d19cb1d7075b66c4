"""Stores with days of their own, and people counters of them: what levels are asked of."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from runtime.registry.sources import TRAFFIC
from serving.storage.tables import Activity, ViewRow
from tally.config.settings import Settings
from tests.support.questions.api_suite import Ask, asking
from tests.support.serving.serving_world import MemoryViews, Stored, World, at, flip
from web.api.app import create_app

SATURDAY, SUNDAY, MONDAY, TUESDAY = DAYS = [f"2026-03-{day}" for day in (28, 29, 30, 31)]
# The last one is in no file.
BRATISLAVA, KATHMANDU, PUB, PLAIN = "367", "406", "500", "7"
STORES: dict[str, dict[str, str]] = {
    BRATISLAVA: {"tz": "Europe/Bratislava"},
    KATHMANDU: {"tz": "Asia/Kathmandu"},
    PUB: {"tz": "Europe/Bratislava", "day_starts": "04:00"},
}


def crossed(store: str, start: str, came: int, left: int, generation: int | None = 1) -> Stored:
    """A window in which so many came and left; of the speed layer without a generation."""
    nothing = {part.name: part.zero for part in TRAFFIC.parts}
    excluded = () if generation is None else tuple(nothing.values())
    parts = tuple((nothing | {"entries": came, "exits": left}).values())
    row = ViewRow(at(start), (), TRAFFIC.epoch, 4, parts, excluded)
    return Stored(TRAFFIC, store, row, generation)


def level_world() -> World:
    """Five UTC days, all of them published, without rows."""
    days = ["2026-03-27", *DAYS]
    pointers = [(TRAFFIC, flip(day, 1, f"{TUESDAY}T23:00", pin=10)) for day in days]
    known = [Activity(store, date(2026, 3, 28), date(2026, 3, 31)) for store in (*STORES, PLAIN)]
    return World(pointers=pointers, activity=[(TRAFFIC, one) for one in known])


@contextmanager
def asking_of(world: World, folder: Path) -> Iterator[Ask]:
    """A function that asks the API of these stores."""
    file = folder / "stores.yaml"
    file.write_text(yaml.safe_dump({int(store): told for store, told in STORES.items()}))
    with asking(create_app(Settings(stores_file=file), MemoryViews(world))) as ask:
        yield ask


def inside(ask: Ask, store: str, first: str, end: str, **asked: Any) -> dict[str, Any]:
    """Values by the end of their stretch, as it is answered; with `worth` what they are worth."""
    worth = asked.pop("worth", False)
    span = {"from": first, "to": end, "tz": "UTC"} | asked
    answer = ask(f"/v1/metrics/{span.pop('metric', 'occupancy')}", store=store, **span)
    assert answer.status_code == 200, answer.text
    names = ("value", "source", "status", "events")
    return {
        row["end"]: tuple(row[name] for name in names) if worth else row["value"]
        for row in answer.json()["rows"]
    }
