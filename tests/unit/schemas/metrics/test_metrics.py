import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from jsonschema import Draft202012Validator

from runtime.registry.sources import FAMILIES
from schemas.loader import FOLDER, metrics
from schemas.metric import AnyMetric, RatioShape, StockShape
from schemas.metric import part_fields as parts_named
from tally.families.family import CURRENCY
from tests.support.sources.sources import ELEVENTH

SHAPE = json.loads((FOLDER / "metrics.schema.json").read_text("utf-8"))
BY_ID = {metric.id: metric for metric in metrics()}
BY_METRIC = pytest.mark.parametrize("metric", metrics(), ids=BY_ID)
FILES = sorted((FOLDER / "metrics").glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_metric_has_the_shape_of_the_catalogue(file: Path) -> None:
    assert wrong(yaml.safe_load(file.read_text("utf-8"))) == []


def test_a_metric_of_another_sources_folder_has_that_shape_too() -> None:
    file = ELEVENTH / "metrics" / "waiting_time.yaml"

    assert wrong(yaml.safe_load(file.read_text("utf-8"))) == []


def test_a_metric_with_an_unknown_field_or_without_a_unit_is_refused() -> None:
    planted = {**msgspec.to_builtins(BY_ID["revenue"]), "colour": "red"}
    del planted["unit"]

    assert wrong(json.loads(json.dumps(planted))) == [
        "'unit' is a required property",
        "Additional properties are not allowed ('colour' was unexpected)",
    ]


def test_the_catalogues_schema_says_what_the_type_says() -> None:
    said = schema_of_the_type()

    assert sorted(said) == sorted(SHAPE["properties"]["kind"]["enum"]) == sorted(SHAPE["$defs"])
    for kind, told in said.items():
        fields = {**told["properties"], "kind": SHAPE["properties"]["kind"]}
        value = fields.pop("value")
        assert plain(value) == plain(SHAPE["$defs"][kind])
        assert plain(fields) == plain(
            {name: one for name, one in SHAPE["properties"].items() if name != "value"}
        )
        assert set(told["required"]) == set(SHAPE["required"])
        assert told["additionalProperties"] is SHAPE["additionalProperties"] is False
    assert SHAPE["allOf"] == [
        {
            "if": {"properties": {"kind": {"const": kind}}},
            "then": {"properties": {"value": {"$ref": f"#/$defs/{kind}"}}},
        }
        for kind in SHAPE["properties"]["kind"]["enum"]
    ]


@pytest.mark.parametrize(
    ("place", "changed"),
    [
        (("properties", "name"), {"type": "string"}),
        (("properties", "grains", "items"), {"enum": ["15m", "1d"]}),
        (("$defs", "additive", "properties", "divide_by"), {"type": "number"}),
        (("$defs", "ratio"), {"type": "object"}),
        (("properties", "kind"), {"enum": ["additive", "ratio", "mean"]}),
        (("required",), ["id"]),
    ],
)
def test_a_schema_that_says_something_else_is_found(
    monkeypatch: pytest.MonkeyPatch, place: tuple[str, ...], changed: Any
) -> None:
    planted = json.loads(json.dumps(SHAPE))
    *path, last = place
    holder = planted
    for name in path:
        holder = holder[name]
    holder[last] = changed
    monkeypatch.setitem(globals(), "SHAPE", planted)

    with pytest.raises(AssertionError):
        test_the_catalogues_schema_says_what_the_type_says()


def test_ids_are_unique_and_the_names_of_their_files() -> None:
    assert [metric.id for metric in metrics()] == [file.stem for file in FILES]


def test_the_first_metrics_of_the_contract_are_there() -> None:
    assert set(BY_ID) >= {
        "transactions",
        "revenue",
        "gross_revenue",
        "units",
        "average_basket",
        "visitors_in",
        "conversion",
    }


@BY_METRIC
def test_each_metric_is_made_of_parts_that_its_families_have(metric: AnyMetric) -> None:
    known = {part for family in metric.families for part in FAMILIES[family].part_names}

    assert parts_of(metric) <= known


@BY_METRIC
def test_each_metric_names_exactly_the_families_that_it_takes_parts_from(
    metric: AnyMetric,
) -> None:
    used = {name for name, family in FAMILIES.items() if parts_of(metric) & set(family.part_names)}

    assert used == set(metric.families)


@BY_METRIC
def test_each_metric_is_split_only_by_axes_that_all_its_families_have(metric: AnyMetric) -> None:
    # What is sold of an article is in the lines of receipts, whatever axes their view has.
    split = metric.families[:1] if isinstance(metric, StockShape) else metric.families
    for family in split:
        # Of money by currency, what was taken in each is for all visitors.
        other = {CURRENCY} if metric.unit == "minor" and family != split[0] else set()
        assert set(metric.by) <= {*FAMILIES[family].axes, *other}


@BY_METRIC
def test_variants_are_metrics(metric: AnyMetric) -> None:
    assert set(metric.variants) <= set(BY_ID)


def parts_of(metric: AnyMetric) -> set[str]:
    """Parts that a metric is made of, those of both sides of a ratio, or of a stock, together."""
    if isinstance(metric, StockShape):
        return {*parts_named(metric)} | parts_of(BY_ID[metric.value.sold])
    if isinstance(metric, RatioShape):
        sides = (metric.value.numerator, metric.value.denominator)
        return {part for side in sides for part in parts_of(BY_ID[side])}
    return {*parts_named(metric)}


def wrong(told: Any) -> list[str]:
    """What the catalogue's schema says against a metric, in order."""
    return sorted(error.message for error in Draft202012Validator(SHAPE).iter_errors(told))


def schema_of_the_type() -> dict[str, Any]:
    """By kind the JSON Schema that the type makes of its metrics, with that of `value` in it."""
    (union,), named = msgspec.json.schema_components([AnyMetric], ref_template="{name}")
    found = union["discriminator"]["mapping"].items()
    return {kind: resolved(named[name], named) for kind, name in found}


def resolved(schema: Any, named: dict[str, Any]) -> Any:
    """A schema with each shape that it refers to in the place of the reference."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            return resolved(named[schema["$ref"]], named)
        return {name: resolved(one, named) for name, one in schema.items()}
    return schema


def plain(schema: Any) -> Any:
    """A schema without what is for people, and without what the loader looks at by itself."""
    if isinstance(schema, dict):
        left_out = {"x-meaning", "description", "examples", "title", "uniqueItems"}
        return {name: plain(one) for name, one in schema.items() if name not in left_out}
    return schema
