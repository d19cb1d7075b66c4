import json
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from runtime.sources import FAMILIES
from schemas.loader import FOLDER, metrics
from tests.unit.architecture.sources import ROOT

SHAPE = json.loads((FOLDER / "metrics.schema.json").read_text("utf-8"))
BY_ID = {metric["id"]: metric for metric in metrics()}
BY_METRIC = pytest.mark.parametrize("metric", metrics(), ids=BY_ID)


@BY_METRIC
def test_each_metric_has_the_shape_of_the_catalogue(metric: dict[str, Any]) -> None:
    assert [error.message for error in Draft202012Validator(SHAPE).iter_errors(metric)] == []


def test_a_metric_of_another_sources_folder_has_that_shape_too() -> None:
    file = ROOT / "tests" / "e2e" / "eleventh" / "metrics" / "waiting_time.yaml"
    entry = yaml.safe_load(file.read_text("utf-8"))

    assert [error.message for error in Draft202012Validator(SHAPE).iter_errors(entry)] == []


def test_a_metric_with_an_unknown_field_or_without_a_unit_is_refused() -> None:
    planted = {**BY_ID["revenue"], "colour": "red"}
    del planted["unit"]

    messages = sorted(error.message for error in Draft202012Validator(SHAPE).iter_errors(planted))
    assert messages == [
        "'unit' is a required property",
        "Additional properties are not allowed ('colour' was unexpected)",
    ]


def test_ids_are_unique_and_the_names_of_their_files() -> None:
    assert [metric["id"] for metric in metrics()] == sorted(
        file.stem for file in (FOLDER / "metrics").glob("*.yaml")
    )


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
def test_each_metric_is_made_of_parts_that_its_families_have(metric: dict[str, Any]) -> None:
    known = {part for family in metric["families"] for part in FAMILIES[family].part_names}

    assert parts_of(metric) <= known


@BY_METRIC
def test_each_metric_names_exactly_the_families_that_it_takes_parts_from(
    metric: dict[str, Any],
) -> None:
    used = {name for name, family in FAMILIES.items() if parts_of(metric) & set(family.part_names)}

    assert used == set(metric["families"])


@BY_METRIC
def test_each_metric_is_split_only_by_axes_that_all_its_families_have(
    metric: dict[str, Any],
) -> None:
    for family in metric["families"]:
        assert set(metric["by"]) <= set(FAMILIES[family].axes)


@BY_METRIC
def test_variants_are_metrics(metric: dict[str, Any]) -> None:
    assert set(metric["variants"]) <= set(BY_ID)


def parts_of(metric: dict[str, Any]) -> set[str]:
    """Additive parts that a metric is made of, those of a ratio's two sides together."""
    value = metric["value"]
    if "sum" in value:
        return set(value["sum"])
    return {part for side in ("numerator", "denominator") for part in parts_of(BY_ID[value[side]])}
