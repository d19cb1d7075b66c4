"""A world put into real tables, with the columns that the layers write."""

from dataclasses import asdict
from typing import Any

from cassandra.cluster import Session

from runtime.registry.sources import FAMILIES
from tally.families.family import Family
from tally.time.windows import window_start
from tests.support.serving.serving_world import Stored, World


def insert_world(session: Session, world: World) -> None:
    """Every row of the world in the session's keyspace; the pointer table gets each day's
    highest generation."""
    speed = [stored for stored in world.rows if stored.generation is None]
    for stored in [*speed, *world.versions()]:
        _insert(session, *_view_row(stored))
    for family, one in sorted(world.pointers, key=lambda pointer: pointer[1].generation):
        row = {
            "family": family.name,
            "day": one.day,
            "generation": one.generation,
            "epoch": one.epoch,
            "table_version": one.table_version,
            "covered_from": one.covered_from,
            "covered_until": one.covered_until,
            "flipped_at": one.flipped_at,
            "pinned": dict(one.pinned),
            "through": dict(one.through),
        }
        _insert(session, "batch_pointer", row)
        _insert(session, "batch_pointer_history", row)
    for family, day, partition, until in world.master:
        _insert(
            session,
            "master_progress",
            {"family": family.name, "day": day, "partition": partition, "until": until},
        )
    # The last write of a key stands here; what writes receipts sees to it that it is the first.
    for raw in sorted(world.receipts, key=lambda one: -one.stored.offset):
        _insert(session, "raw_pos_transaction_byday", raw.row)
    _insert_speed(session, world)
    _insert_state(session, world)


def _insert_speed(session: Session, world: World) -> None:
    for family, partition, until in world.speed:
        _insert(
            session,
            "speed_progress",
            {"family": family.name, "partition": partition, "until": until},
        )
    for number, (family, recorded_at, dropped) in enumerate(world.late):
        late = {
            "family": family.name,
            "recorded_in": window_start(recorded_at),
            "run": str(number),
            "dropped": dropped,
        }
        _insert(session, "speed_late", late)
    for family, activity in world.activity:
        _insert(session, "store_activity", {"family": family.name, **activity._asdict()})


def _insert_state(session: Session, world: World) -> None:
    for family in {*FAMILIES.values(), *(stored.family for stored in world.rows)}:
        for key, days in world.axis_values(family).items():
            named = _named(("axis", "store_id", "value"), key)
            spans = _named(("first_day", "last_day"), days)
            _insert(session, "store_axis", {"family": family.name, **named, **spans})
        if world.master_current:
            _insert(
                session,
                "master_current",
                {"family": family.name, "current_at": world.master_current},
            )
    for family, store_id, found in world.findings:
        _insert(
            session,
            "till_finding",
            {"family": family.name, "store_id": store_id, "generation": 1, **found._asdict()},
        )
    _insert_answers(session, world)
    for family, day, until in world.swept:
        _insert(session, "swept_day", {"family": family.name, "day": day, "until": until})
    for gap in world.gaps:
        _insert(session, "gap", asdict(gap))


def _insert_answers(session: Session, world: World) -> None:
    stores = {stored.store_id for stored in world.rows}
    stores |= {activity.store_id for _, activity in world.activity}
    for family in {family for family, _ in world.pointers if family.reading is not None}:
        for store_id in stores:
            for (day, generation), (since, until) in world.answers(family, store_id).items():
                row = {"day": day, "generation": generation, "since": since, "until": until}
                named = {"family": family.name, "store_id": store_id}
                _insert(session, "answered_span", named | row)


def _view_row(stored: Stored) -> tuple[str, dict[str, Any]]:
    family, row = stored.family, stored.row
    values = {
        "store_id": stored.store_id,
        "day": row.window_start.date(),
        "window_start": row.window_start,
        "dim": "*",
        "dim_value": "",
        "events": row.events,
        "epoch": row.epoch,
        **_named(family.axes, row.axes),
        **_named(family.part_names, row.parts),
    }
    if stored.generation is None:
        return family.speed_table, values
    return _batch_row(family, stored, values)


def _batch_row(
    family: Family, stored: Stored, values: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    return family.batch_table, {
        **values,
        "events": None if stored.is_absent else stored.row.events,
        "generation": stored.generation,
        **_named(family.exclusion_columns, stored.row.excluded),
    }


def _named(names: tuple[str, ...], values: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(names, values, strict=True))


def _insert(session: Session, table: str, row: dict[str, Any]) -> None:
    names, marks = ", ".join(f'"{name}"' for name in row), ", ".join(["?"] * len(row))
    session.execute(
        session.prepare(f"INSERT INTO {table} ({names}) VALUES ({marks})"), list(row.values())
    )
