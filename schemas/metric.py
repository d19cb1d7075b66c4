"""A metric of the catalogue as its file describes it, as far as types can express it.

Checks that no type can express (a part of another family, an unknown id) are in
schemas/catalogue.py.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, structs

from schemas.family import Words

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
    """A metric that is the number of arrivals less departures, at the end of the stretch.

    It restarts at 0 with each day of the store.
    """

    value: LevelValue


class StockShape(MetricShape, frozen=True, kw_only=True, tag="stock"):
    """A metric that is the stock of articles: the last count, and the movements since.

    Only a count resets it.
    """

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
