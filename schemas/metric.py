"""A metric of the catalogue as its file describes it: what a type can say of it.

What no type can say (a part of another family, an unknown id) is in schemas/catalogue.py.
"""

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from schemas.source import Words

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


class MetricShape(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind"):
    """What the file of a metric says, whatever its kind; the kind decides what `value` is."""

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
        """The word in the file that says what the value is made of."""
        return str(self.__struct_config__.tag)


class AdditiveShape(MetricShape, frozen=True, kw_only=True, tag="additive"):
    """A metric whose values of two windows add up."""

    value: SumValue


class RatioShape(MetricShape, frozen=True, kw_only=True, tag="ratio"):
    """A metric that is one sum over another."""

    value: RatioValue


# By the word of `kind` msgspec chooses the shape.
AnyMetric: TypeAlias = AdditiveShape | RatioShape
