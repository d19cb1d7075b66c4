"""A part's column: its type in Cassandra, and its value as the driver has read it."""

from typing import Any

import pytest

from runtime.registry.sources import PARTS, build_family
from schemas.generated import render_views
from schemas.loader import builtin_sources
from schemas.source import COLUMN_TYPES, PartShape
from tally.algebra.level import Level
from tally.algebra.parts import Count, Histogram, Max, Min, Part, Sum, Uniques
from tally.families.family import Family

EVERY = (Sum("total"), Count("count"), Min("least"), Max("most"), Uniques("seen"), Histogram("by"))
KINDS = PartShape.__annotations__["kind"].__args__


def test_each_kind_of_part_has_the_column_of_its_class() -> None:
    assert {kind: part.cql for kind, part in PARTS.items()} == COLUMN_TYPES
    assert set(KINDS) == set(COLUMN_TYPES)


@pytest.mark.parametrize("kind", COLUMN_TYPES)
def test_a_descriptor_may_use_each_kind(kind: str) -> None:
    traffic = builtin_sources()["traffic"]
    first, *others = traffic.family.parts
    shape = PartShape(name=first.name, kind=kind, unit=first.unit, meaning=first.meaning)  # type: ignore[arg-type]
    family = type(traffic.family)(
        kind="additive", epoch=1, axes=(), parts=(shape, *others), raised=()
    )
    source = type(traffic)(
        **{
            **{name: getattr(traffic, name) for name in traffic.__struct_fields__},
            "family": family,
        }
    )

    assert type(build_family(source).parts[0]) is PARTS[kind]
    # Once in the speed table, and with its exclusions in the batch table.
    assert render_views(source).count(f" {COLUMN_TYPES[kind]},") >= 3


@pytest.mark.parametrize(
    ("part", "column", "value"),
    [
        (Sum("total"), None, 0),
        (Min("least"), None, None),
        (Min("least"), 0, 0),
        (Max("most"), -4, -4),
        (Uniques("seen"), None, []),
        (Uniques("seen"), [1, 7], [1, 7]),
        (Histogram("by"), None, []),
        (Histogram("by"), [(64, 2), (68, 1)], [[64, 2], [68, 1]]),
        (Level("stock"), [(5, 8)], [[5, 8]]),
    ],
)
def test_column_is_read_as_the_value_that_was_written(part: Part, column: Any, value: Any) -> None:
    assert part.from_column(column) == value
    assert Family("made", (), (part,), epoch=1).from_columns([column]) == (value,)


def test_family_reads_each_part_by_its_own_rule() -> None:
    columns = (5, 2, None, 9, None, [(1, 2)])

    assert Family("made", (), EVERY, epoch=1).from_columns(columns) == (5, 2, None, 9, [], [[1, 2]])


def test_value_that_was_read_is_nobody_elses() -> None:
    seen = Uniques("seen")

    seen.from_column(None).append(3)

    assert seen.from_column(None) == [] == seen.zero
