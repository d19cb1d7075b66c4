"""The metrics of the catalogue, and reports, as their files describe them.

What no type can express (a part of another family, an unknown id) is checked on loading.
"""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, structs

from schemas.source import BadSource, Problems, Source, Words, read_yaml

MetricId = Annotated[str, Meta(pattern="^[a-z][a-z0-9_]*$")]
Grain = Literal["15m", "1h", "1d", "1w"]


class SumValue(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parts of one family with their signs, added up and divided at the end."""

    sum: Annotated[dict[str, Literal[1, -1]], Meta(min_length=1)]
    divide_by: Annotated[int, Meta(ge=1)] = 1


class RatioValue(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The ids of two sums."""

    numerator: str
    denominator: str


class MinimumValue(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The part that holds the least."""

    min: str


class MaximumValue(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The part that holds the most."""

    max: str


class UniquesValue(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The part that holds the digests of different subjects."""

    uniques: str


class SharedPart(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part, and the share of its numbers that lie at or below the value: 0.5 is the median."""

    part: str
    share: Annotated[float, Meta(gt=0, le=1)]


class PercentileValue(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The part that holds the frequency of each size, and the share."""

    percentile: SharedPart


class LevelValue(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parts of one family with their signs, added up since the store's day began."""

    running: Annotated[dict[str, Literal[1, -1]], Meta(min_length=1)]


class StockValue(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A level of one family less the sales of receipts since; at the end, or the lowest of all.

    `sold` is the id of the sum, of another family, that the receipts' lines add up to.
    """

    stock: str
    sold: str
    at: Literal["end", "lowest"]
    divide_by: Annotated[int, Meta(ge=1)] = 1


class MetricShape(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind"):
    """The content of a metric's file, for any kind; the kind decides the type of `value`."""

    id: MetricId
    name: Words
    unit: Words
    families: Annotated[tuple[str, ...], Meta(min_length=1)]
    formula: Words
    meaning: Words
    variants: tuple[str, ...]
    by: tuple[str, ...]
    grains: Annotated[tuple[Grain, ...], Meta(min_length=1)]

    @property
    def kind(self) -> str:
        """The word in the file that says how the value is made."""
        return str(self.__struct_config__.tag)


class AdditiveShape(MetricShape, frozen=True, kw_only=True, tag="additive"):
    """A metric whose values of two windows add up."""

    value: SumValue


class RatioShape(MetricShape, frozen=True, kw_only=True, tag="ratio"):
    """A metric that is one sum over another."""

    value: RatioValue


class MinimumShape(MetricShape, frozen=True, kw_only=True, tag="minimum"):
    """A metric that is the least of the events' numbers."""

    value: MinimumValue


class MaximumShape(MetricShape, frozen=True, kw_only=True, tag="maximum"):
    """A metric that is the greatest of the events' numbers."""

    value: MaximumValue


class UniquesShape(MetricShape, frozen=True, kw_only=True, tag="uniques"):
    """A metric that is an estimate of the number of different subjects."""

    value: UniquesValue


class PercentileShape(MetricShape, frozen=True, kw_only=True, tag="percentile"):
    """A metric that is the size which a share of the events' numbers does not exceed."""

    value: PercentileValue


class LevelShape(MetricShape, frozen=True, kw_only=True, tag="level"):
    """A metric that is arrivals less departures at the end, from 0 on each day of the store."""

    value: LevelValue


class StockShape(MetricShape, frozen=True, kw_only=True, tag="stock"):
    """A metric that is the stock of articles: the last count, and the movements since it."""

    value: StockValue


# msgspec chooses the shape by the word of `kind`.
AnyMetric: TypeAlias = (
    AdditiveShape
    | RatioShape
    | MinimumShape
    | MaximumShape
    | UniquesShape
    | PercentileShape
    | LevelShape
    | StockShape
)
# The kinds of parts that a metric of each kind can read; a ratio is made of two sums instead.
READABLE_PARTS: Mapping[str, tuple[str, ...]] = {
    "additive": ("sum", "count"),
    "minimum": ("min",),
    "maximum": ("max",),
    "uniques": ("uniques",),
    "percentile": ("histogram",),
    "level": ("sum", "count"),
    "stock": ("level",),
}


def part_fields(entry: AnyMetric) -> dict[str, str]:
    """The parts that the value is made of, each with the field of the file that names it."""
    match entry:
        case RatioShape():
            return {}
        case AdditiveShape():
            return dict.fromkeys(entry.value.sum, "value.sum")
        case LevelShape():
            return dict.fromkeys(entry.value.running, "value.running")
        case StockShape():
            return {entry.value.stock: "value.stock"}
        case PercentileShape():
            return {entry.value.percentile.part: "value.percentile.part"}
    # The remaining kinds have one field, which names one part.
    ((field, part),) = structs.asdict(entry.value).items()
    return {part: f"value.{field}"}


ReportId = Annotated[str, Meta(pattern="^[a-z][a-z0-9_]*$")]
# The axis by which the series is cut: days, hours of the week, bins of the length of visits, or
# articles (which no view holds: the receipts do).
Pivot = Literal["day", "hour_of_week", "stay_time", "item"]


class ReportShape(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The content of a report's file."""

    id: ReportId
    title: Words
    # The common name of the sensors, e.g. "POS, people counter".
    data_source: Words
    metric: ReportId
    pivot: Pivot
    how_to_read: Words
    # A metric of the same family that shows how reliable the number is.
    beside: ReportId | None = None


# The unit of amounts in minor units of a currency, and the axis of the currency.
_MONEY, _CURRENCY = "minor", "currency"


def load_metrics(
    files: Iterable[Path], sources: Mapping[str, Source], units: Collection[str]
) -> tuple[AnyMetric, ...]:
    """One entry for each file, ordered by id. Raises BadSource that names file and field."""
    # The file's name is the id, so that a metric can be found without a look into other files.
    by_id: dict[str, tuple[Path, AnyMetric]] = {}
    for file in files:
        if file.stem in by_id:
            raise BadSource(f"{file}: id: {file.stem!r} is the metric of {by_id[file.stem][0]}")
        by_id[file.stem] = file, read_yaml(file, AnyMetric)
    entries = {metric_id: entry for metric_id, (_, entry) in sorted(by_id.items())}
    # Checked after all files are read: a ratio may lie in another folder than its sides.
    for file, entry in by_id.values():
        problems = (*_check_entry(file, entry, units), *_check_names(entry, sources, entries))
        for field, wrong in problems:
            raise BadSource(f"{file}: {field}: {wrong}")
    return tuple(entries.values())


def _check_entry(file: Path, entry: AnyMetric, units: Collection[str]) -> Problems:
    if entry.id != file.stem:
        yield "id", f"{entry.id!r} is not the name of the file"
    if entry.unit not in units:
        yield "unit", f"{entry.unit!r} is none of {', '.join(sorted(units))}"
    for field in ("families", "variants", "by", "grains"):
        names: tuple[str, ...] = getattr(entry, field)
        for name in names:
            if names.count(name) > 1:
                yield field, f"{name!r} is there twice"


def _check_names(
    entry: AnyMetric, sources: Mapping[str, Source], entries: Mapping[str, AnyMetric]
) -> Problems:
    """Names of entries that are missing, or are not of the type that the metric expects."""
    # Otherwise an unknown family would only be found by the first query for the metric.
    if unknown := [name for name in entry.families if name not in sources]:
        yield "families", f"there is no source {unknown[0]!r}"
        return
    if isinstance(entry, RatioShape):
        yield from _check_sides(entry, entries)
    elif isinstance(entry, StockShape):
        yield from _check_parts(entry, sources[entry.families[0]])
        yield from _check_sold(entry, entries)
        if len(sources[entry.families[0]].family.axes) != 1:
            yield "families", f"{entry.families[0]} is to have one axis, the article"
    elif len(entry.families) > 1:
        # The rows of one family are joined: parts of another would silently be 0.
        yield "families", f"its parts are of one family, not of {', '.join(entry.families)}"
    else:
        yield from _check_parts(entry, sources[entry.families[0]])
    yield from _check_axes(entry, sources, entries)
    for variant in entry.variants:
        if variant not in entries:
            yield "variants", f"there is no metric {variant!r}"


def _check_axes(
    entry: AnyMetric, sources: Mapping[str, Source], entries: Mapping[str, AnyMetric]
) -> Problems:
    # The sales of an article are found in the receipts' lines, for any axes of their family.
    split = entry.families[:1] if isinstance(entry, StockShape) else entry.families
    above = entries.get(entry.value.numerator) if isinstance(entry, RatioShape) else None
    paid = above.families if above else split
    is_money = entry.unit == _MONEY
    for family in split:
        axes = sources[family].family.axes
        for axis in entry.by:
            # By an axis that one side lacks, a ratio would be of a part over the whole. With money
            # that is intended: the takings in one currency, for each of all visitors.
            if axis not in axes and not (is_money and axis == _CURRENCY and family not in paid):
                yield "by", f"{axis!r} is no axis of {family}"
        # Otherwise queries for a store with two currencies would be refused without an alternative.
        if is_money and _CURRENCY in axes and _CURRENCY not in entry.by:
            yield "by", f"{_CURRENCY!r} is missing: {family} is in several"


def _check_parts(entry: AnyMetric, source: Source) -> Problems:
    kinds = {part.name: part.kind for part in source.family.parts}
    for name, field in part_fields(entry).items():
        if name not in kinds:
            yield field, f"{name!r} is no part of {source.name}"
        elif kinds[name] not in READABLE_PARTS[entry.kind]:
            readable = " or ".join(READABLE_PARTS[entry.kind])
            yield field, f"{name!r} is a {kinds[name]}, and {entry.kind} is of a {readable}"


def _check_sold(entry: StockShape, entries: Mapping[str, AnyMetric]) -> Problems:
    sold = entries.get(entry.value.sold)
    if not isinstance(sold, AdditiveShape):
        yield "value.sold", f"{entry.value.sold!r} is no metric that is a sum"
    elif sold.value.divide_by != entry.value.divide_by:
        # Both are used as they are stored: pieces less thousandths of pieces would make no sense.
        yield "value.divide_by", f"is not {sold.value.divide_by}, that of {sold.id}"
    elif entry.families != (entry.families[0], *sold.families):
        expected = ", ".join((entry.families[0], *sold.families))
        yield "families", f"its level and what is sold are of {expected}, in this order"


def _check_sides(entry: RatioShape, entries: Mapping[str, AnyMetric]) -> Problems:
    sides: list[AdditiveShape] = []
    for field, name in structs.asdict(entry.value).items():
        side = entries.get(name)
        if side is None:
            yield f"value.{field}", f"there is no metric {name!r}"
        elif not isinstance(side, AdditiveShape):
            yield f"value.{field}", f"{name!r} is no sum, but of kind {side.kind}"
        else:
            sides.append(side)
    # In order: an answer names by them what was read, and the first is the numerator's.
    families = tuple(dict.fromkeys(family for side in sides for family in side.families))
    if entry.families != families:
        yield "families", f"its sides are of {', '.join(families)}, in this order"
