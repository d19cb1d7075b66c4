"""The metric catalogue, read from its files and checked against the sources and itself."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from schemas.metric import (
    READABLE_PARTS,
    AdditiveShape,
    AnyMetric,
    RatioShape,
    StockShape,
    part_fields,
)
from schemas.source import BadSource, Source, read_yaml

# The unit of amounts in minor units of a currency, and the axis of the currency.
_MONEY, _CURRENCY = "minor", "currency"
# Pairs of a field and what is wrong with it.
Problems = Iterable[tuple[str, str]]


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
        for field, wrong in (
            *_check_entry(file, entry, units),
            *_check_names(entry, sources, entries),
        ):
            raise BadSource(f"{file}: {field}: {wrong}")
    return tuple(entries.values())


def _check_entry(file: Path, entry: AnyMetric, units: Collection[str]) -> Problems:
    if entry.id != file.stem:
        yield "id", f"{entry.id!r} is not the name of the file"
    if entry.unit not in units:
        yield "unit", f"{entry.unit!r} is none of {', '.join(sorted(units))}"
    for field, names in (
        ("families", entry.families),
        ("variants", entry.variants),
        ("by", entry.by),
        ("grains", entry.grains),
    ):
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
    for field, name in (
        ("value.numerator", entry.value.numerator),
        ("value.denominator", entry.value.denominator),
    ):
        side = entries.get(name)
        if side is None:
            yield field, f"there is no metric {name!r}"
        elif not isinstance(side, AdditiveShape):
            yield field, f"{name!r} is no sum, but of kind {side.kind}"
        else:
            sides.append(side)
    # In order: an answer names by them what was read, and the first is the numerator's.
    families = tuple(dict.fromkeys(family for side in sides for family in side.families))
    if entry.families != families:
        yield "families", f"its sides are of {', '.join(families)}, in this order"
