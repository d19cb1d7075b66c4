"""A metric's file that is wrong ends with one line that names file and field, whatever is wrong."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import yaml

from schemas.loader import FOLDER, builtin_sources, read_sources
from schemas.metric import load_metrics
from schemas.source import BadSource, PartShape, Source
from tests.support.sources.sources import ELEVENTH, run_with

SOURCES = read_sources([*(source.folder for source in builtin_sources().values()), ELEVENTH])
UNITS = {"minor", "receipts", "units", "persons", "groups", "fraction", "person-seconds"}
UNITS |= {"seconds", "minutes", "visits", "passes", "devices", "counts"}
OWN = sorted((FOLDER / "metrics").glob("*.yaml"))
ADDITIVE = yaml.safe_load((ELEVENTH / "metrics" / "waiting_time.yaml").read_text("utf-8"))
RATIO = yaml.safe_load((FOLDER / "metrics" / "conversion.yaml").read_text("utf-8"))


def written(folder: Path, told: Mapping[str, Any]) -> Path:
    """The metric's file, named by its id."""
    file = folder / f"{told.get('id', 'planted')}.yaml"
    file.write_text(yaml.safe_dump(dict(told)), "utf-8")
    return file


def said(folder: Path, told: Mapping[str, Any]) -> str:
    """What is said of the planted file beside those of the product, without its name."""
    file = written(folder, told)
    with pytest.raises(BadSource) as wrong:
        load_metrics([*OWN, file], SOURCES, UNITS)
    line = str(wrong.value)
    assert line.startswith(f"{file}: ") and "\n" not in line
    return line.removeprefix(f"{file}: ")


def test_the_good_ones_are_taken(tmp_path: Path) -> None:
    files = [written(tmp_path, told) for told in (ADDITIVE, {**RATIO, "id": "other"})]

    found = [one.id for one in load_metrics([*OWN, *files], SOURCES, UNITS)]

    assert found == sorted(file.stem for file in [*OWN, *files])


@pytest.mark.parametrize("field", ADDITIVE)
def test_a_field_that_is_missing_is_named(tmp_path: Path, field: str) -> None:
    told = {name: value for name, value in ADDITIVE.items() if name != field}

    assert said(tmp_path, told) == f"{field}: the field is missing"


@pytest.mark.parametrize(
    ("field", "value", "place"),
    [
        ("name", 5, "name: Expected `str`, got `int`"),
        ("name", "", "name: Expected `str` of length >= 1"),
        ("unit", None, "unit: Expected `str`, got `null`"),
        ("kind", "sum", "kind: Invalid value 'sum'"),
        ("families", "queues", "families: Expected `array`, got `str`"),
        ("families", [], "families: Expected `array` of length >= 1"),
        ("formula", ["a"], "formula: Expected `str`, got `array`"),
        ("value", "waited_seconds", "value: Expected `object`, got `str`"),
        ("value", {}, "value.sum: the field is missing"),
        ("value", {"sum": {}}, "value.sum: Expected `object` of length >= 1"),
        ("value", {"sum": {"arrived": 2}}, "value.sum[...]: Invalid enum value 2"),
        ("value", {"sum": {"arrived": 1}, "divide_by": 0}, "value.divide_by: Expected `int` >= 1"),
        ("value", {"numerator": "a", "denominator": "b"}, "value"),
        ("meaning", None, "meaning: Expected `str`, got `null`"),
        ("variants", None, "variants: Expected `array`, got `null`"),
        ("by", "queue", "by: Expected `array`, got `str`"),
        ("by", [1], "by[0]: Expected `str`, got `int`"),
        ("grains", [], "grains: Expected `array` of length >= 1"),
        ("grains", ["15m", "5m"], "grains[1]: Invalid enum value '5m'"),
        ("colour", "red", "Object contains unknown field `colour`"),
    ],
)
def test_a_field_of_another_type_is_named(
    tmp_path: Path, field: str, value: Any, place: str
) -> None:
    assert said(tmp_path, {**ADDITIVE, field: value}).startswith(place)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"id": "Waiting"}, "id: Expected `str` matching regex"),
        (
            {"value": {"sum": {"stood_seconds": 1}}},
            "value.sum: 'stood_seconds' is no part of queues",
        ),
        ({"unit": "hours"}, "unit: 'hours' is none of "),
        ({"families": ["zones"]}, "families: there is no source 'zones'"),
        ({"families": ["queues", "queues"]}, "families: 'queues' is there twice"),
        (
            {"families": ["queues", "traffic"]},
            "families: its parts are of one family, not of queues, ",
        ),
        ({"value": {"sum": {"entries": 1}}}, "value.sum: 'entries' is no part of queues"),
        ({"by": ["currency"]}, "by: 'currency' is no axis of queues"),
        ({"by": ["queue", "queue"]}, "by: 'queue' is there twice"),
        ({"grains": ["1d", "1d"]}, "grains: '1d' is there twice"),
        ({"variants": ["patience"]}, "variants: there is no metric 'patience'"),
        ({"variants": ["units", "units"]}, "variants: 'units' is there twice"),
    ],
)
def test_a_wrong_metric_of_a_source_is_told_with_file_and_field(
    tmp_path: Path, changed: dict[str, Any], told: str
) -> None:
    assert said(tmp_path, {**ADDITIVE, **changed}).startswith(told)


def test_an_id_that_is_not_the_name_of_the_file_is_told(tmp_path: Path) -> None:
    file = tmp_path / "waiting_time.yaml"
    file.write_text(yaml.safe_dump({**ADDITIVE, "id": "waiting"}), "utf-8")

    with pytest.raises(BadSource, match="id: 'waiting' is not the name of the file"):
        load_metrics([file], SOURCES, UNITS)


def test_a_part_of_another_family_that_the_metric_names_too_is_none_of_the_sum(
    tmp_path: Path,
) -> None:
    # It loaded, and answered 0 for ever: the sum was taken from the first family alone.
    told = {**ADDITIVE, "families": ["sales", "traffic"], "value": {"sum": {"entries": 1}}}

    assert said(tmp_path, told).startswith("families: its parts are of one family")


def sides(numerator: str, denominator: str) -> dict[str, Any]:
    return {"value": {"numerator": numerator, "denominator": denominator}}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (sides("transactions", "shoppers"), "value.denominator: there is no metric 'shoppers'"),
        (sides("shoppers", "visitors_in"), "value.numerator: there is no metric 'shoppers'"),
        (
            sides("average_basket", "visitors_in"),
            "value.numerator: 'average_basket' is no sum",
        ),
        (sides("planted", "visitors_in"), "value.numerator: 'planted' is no sum"),
        ({"families": ["traffic", "sales"]}, "families: its sides are of sales, traffic"),
        ({"families": ["sales"]}, "families: its sides are of sales, traffic"),
        ({"families": ["sales", "traffic", "queues"]}, "families: its sides are of sales, traffic"),
        ({"by": ["currency"]}, "by: 'currency' is no axis of traffic"),
        (
            {**sides("revenue", "visitors_in"), "unit": "minor"},
            "by: 'currency' is missing: sales is in several",
        ),
        ({"value": {"numerator": "transactions"}}, "value.denominator: the field is missing"),
        ({"value": {"sum": {"entries": 1}}}, "value"),
    ],
)
def test_what_no_type_can_say_of_a_ratio_is_looked_at(
    tmp_path: Path, changed: dict[str, Any], told: str
) -> None:
    assert said(tmp_path, {**RATIO, "id": "planted", **changed}).startswith(told)


def phones() -> dict[str, Source]:
    """The sources, of which one has a part of every kind."""
    # Made here: which kinds a descriptor may name is another question.
    parts = tuple(
        PartShape(name=f"a_{kind}", kind=cast(Any, kind), unit="persons", meaning="a part")
        for kind in ("sum", "count", "min", "max", "uniques", "histogram", "level")
    )
    queues = SOURCES["queues"]
    family = msgspec.structs.replace(queues.family, parts=parts)
    return {**SOURCES, "queues": msgspec.structs.replace(queues, family=family)}


def of_kind(kind: str, part: str) -> dict[str, Any]:
    """A metric of the kind over one part."""
    values: dict[str, dict[str, Any]] = {
        "additive": {"sum": {part: 1}},
        "minimum": {"min": part},
        "maximum": {"max": part},
        "uniques": {"uniques": part},
        "percentile": {"percentile": {"part": part, "share": 0.5}},
        "level": {"running": {part: -1}},
    }
    return {**ADDITIVE, "kind": kind, "value": values[kind]}


FITTING = {
    ("additive", "a_sum"),
    ("additive", "a_count"),
    ("minimum", "a_min"),
    ("maximum", "a_max"),
    ("uniques", "a_uniques"),
    ("percentile", "a_histogram"),
    ("level", "a_sum"),
    ("level", "a_count"),
}
PLACES = {
    "additive": "value.sum",
    "minimum": "value.min",
    "maximum": "value.max",
    "uniques": "value.uniques",
    "percentile": "value.percentile.part",
    "level": "value.running",
}


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("part", [part.name for part in phones()["queues"].family.parts])
def test_a_metric_is_made_of_parts_that_its_kind_can_read(
    tmp_path: Path, kind: str, part: str
) -> None:
    file = written(tmp_path, of_kind(kind, part))
    if (kind, part) in FITTING:
        assert len(load_metrics([file], phones(), UNITS)) == 1
        return

    with pytest.raises(BadSource) as wrong:
        load_metrics([file], phones(), UNITS)

    assert str(wrong.value).startswith(f"{file}: {PLACES[kind]}: '{part}' is a {part[2:]}, ")


@pytest.mark.parametrize("kind", PLACES)
def test_a_part_that_is_not_there_is_named_whatever_the_kind(tmp_path: Path, kind: str) -> None:
    assert (
        said(tmp_path, of_kind(kind, "a_mean")) == f"{PLACES[kind]}: 'a_mean' is no part of queues"
    )


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"percentile": "waits"}, "value.percentile: Expected `object`"),
        ({"percentile": {"part": "waits"}}, "value.percentile.share: the field is missing"),
        ({"percentile": {"part": "waits", "share": 0}}, "value.percentile.share: Expected `float`"),
        ({"percentile": {"part": "waits", "share": 50}}, "value.percentile.share: Expected `flo"),
        ({"min": "waits"}, "value"),
    ],
)
def test_a_percentile_has_a_part_and_a_share(
    tmp_path: Path, value: dict[str, Any], told: str
) -> None:
    assert said(tmp_path, {**ADDITIVE, "kind": "percentile", "value": value}).startswith(told)


def test_a_side_of_a_ratio_is_a_sum_and_nothing_else(tmp_path: Path) -> None:
    least = written(tmp_path, {**of_kind("minimum", "a_min"), "id": "least"})
    ratio = {**ADDITIVE, **sides("least", "least"), "id": "planted", "kind": "ratio"}
    planted = written(tmp_path, ratio)

    with pytest.raises(BadSource, match=r"numerator: 'least' is no sum, but of kind minimum"):
        load_metrics([least, planted], phones(), UNITS)


@pytest.mark.parametrize("text", ["", "[1, 2]", "id: [", "5", "\x00", "{1: 2}"])
def test_what_is_no_object_is_told(tmp_path: Path, text: str) -> None:
    file = tmp_path / "planted.yaml"
    file.write_text(text, "utf-8")

    with pytest.raises(BadSource) as wrong:
        load_metrics([file], SOURCES, UNITS)

    assert str(wrong.value).startswith(f"{file}: ") and "\n" not in str(wrong.value)


def test_a_process_with_a_bad_metric_ends_with_one_line(tmp_path: Path) -> None:
    done = serving_with(tmp_path, {**ADDITIVE, **sides("a", "b"), "kind": "ratio"})

    assert done.returncode == 78, done.stderr
    assert done.stderr.splitlines()[-1].count("waiting_time.yaml: value.numerator: ") == 1
    assert "Traceback" not in done.stderr


def serving_with(tmp_path: Path, told: Mapping[str, Any]) -> "subprocess.CompletedProcess[str]":
    """The API's process with the eleventh source, whose metric says this."""
    folder = tmp_path / "queues"
    folder.mkdir()
    for file in ELEVENTH.iterdir():
        if file.is_file():
            (folder / file.name).write_bytes(file.read_bytes())
    (folder / "metrics").mkdir()
    written(folder / "metrics", told)
    return run_with(str(folder), "-m", "web")
