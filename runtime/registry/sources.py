"""The view families of all sources, made from their descriptors."""

from collections.abc import Iterator, Mapping
from functools import cache

from schemas import loader
from schemas.source import READINGS, RaisedDays, Source
from tally.algebra.level import Level
from tally.algebra.parts import Count, Histogram, KeyedSpans, KeyedSum, Max, Min, Part, Sum, Uniques
from tally.families.epochs import RaisedEpoch
from tally.families.family import Family, RecordFields
from tally.families.kind import ADDITIVE, DERIVED, LEVEL, Kind

# The classes for the words of a descriptor.
PARTS: Mapping[str, type[Part]] = {
    "sum": Sum,
    "count": Count,
    "min": Min,
    "max": Max,
    "uniques": Uniques,
    "histogram": Histogram,
    "keyed_sum": KeyedSum,
    "keyed_spans": KeyedSpans,
    "level": Level,
}
KINDS: Mapping[str, Kind] = {"additive": ADDITIVE, "derived": DERIVED, "level": LEVEL}


@cache
def build_family(source: Source) -> Family:
    """The view family of a source; equal sources share one object."""
    shape = source.family
    return Family(
        source.name,
        axes=shape.axes,
        # The order of parts is that of the columns, and of the state of an open window.
        parts=tuple(
            PARTS[part.kind](part.name, part.unit, part.meaning, part.optional)
            for part in shape.parts
        ),
        epoch=shape.epoch,
        kind=KINDS[shape.kind],
        raised=tuple(map(_make_raised, shape.raised)),
        lateness_seconds=source.lateness_seconds,
        reading=_make_record_fields(shape.reading),
        listed_as=source.listed_as,
        raw_topic=source.raw_topic,
        copies_move=not source.identity_has_instant,
    )


def _make_record_fields(name: str | None) -> RecordFields | None:
    if name is None:
        return None
    shape = READINGS[name]
    patterns = tuple(shape.texts.items())
    return RecordFields(name, tuple(shape.texts), shape.numbers, patterns)


def _make_raised(days: RaisedDays) -> RaisedEpoch:
    return RaisedEpoch(days.first, days.last, days.epoch)


class Families(Mapping[str, Family]):
    """Every family by name, in the order of the sources.

    Descriptors are read at the first access and not at import, so that a bad descriptor ends a job
    like a bad setting, with one line. Raises BadSource.
    """

    def __getitem__(self, name: str) -> Family:
        return _build_families()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_build_families())

    def __len__(self) -> int:
        return len(_build_families())


@cache
def _build_families() -> dict[str, Family]:
    return {name: build_family(source) for name, source in loader.sources().items()}


FAMILIES: Mapping[str, Family] = Families()
# The product's own two families, for code about receipts only, for benchmarks and for tests.
SALES = build_family(loader.builtin_sources()["sales"])
TRAFFIC = build_family(loader.builtin_sources()["traffic"])
