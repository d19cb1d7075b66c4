"""A stock is of a level and of what is sold: what is wrong with its file is told by its field."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.loader import FOLDER, builtin_sources, read_sources
from schemas.metric import load_metrics
from schemas.source import BadSource
from tests.support.sources.sources import ELEVENTH

FILE = FOLDER / "metrics" / "stock_on_hand.yaml"
OWN = sorted(file for file in (FOLDER / "metrics").glob("*.yaml") if file != FILE)
SOURCES = read_sources([*(source.folder for source in builtin_sources().values()), ELEVENTH])
UNITS = {"minor", "receipts", "units", "persons", "groups", "fraction", "seconds", "minutes"}
UNITS |= {"visits", "passes", "devices", "counts"}
STOCK = {**yaml.safe_load(FILE.read_text("utf-8")), "variants": []}
VALUE = STOCK["value"]


def planted(folder: Path, changed: dict[str, Any]) -> Path:
    file = folder / "stock_on_hand.yaml"
    file.write_text(yaml.safe_dump({**STOCK, **changed}), "utf-8")
    return file


def test_the_good_one_is_taken(tmp_path: Path) -> None:
    found = load_metrics([*OWN, planted(tmp_path, {})], SOURCES, UNITS)

    assert [one.kind for one in found if one.id == "stock_on_hand"] == ["stock"]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"value": {**VALUE, "stock": "pieces"}}, "value.stock: 'pieces' is no part of inventory"),
        ({"value": {**VALUE, "stock": "counts"}}, "value.stock: 'counts' is a sum, and stock is"),
        ({"value": {**VALUE, "sold": "pieces"}}, "value.sold: 'pieces' is no metric that is a sum"),
        ({"value": {**VALUE, "sold": "conversion"}}, "value.sold: 'conversion' is no metric that"),
        ({"value": {**VALUE, "divide_by": 1}}, "value.divide_by: is not 1000, that of units"),
        ({"value": {**VALUE, "at": "noon"}}, "value.at: Invalid enum value 'noon'"),
        ({"value": {"sum": {"counts": 1}}}, "value: Object contains unknown field `sum`"),
        (
            {"families": ["inventory"]},
            "families: its level and what is sold are of inventory, sale",
        ),
        ({"families": ["sales", "inventory"]}, "value.stock: 'stock_milli' is no part of sales"),
        ({"by": ["currency"]}, "by: 'currency' is no axis of inventory"),
    ],
)
def test_what_is_wrong_is_told_by_its_field(
    tmp_path: Path, changed: dict[str, Any], told: str
) -> None:
    file = planted(tmp_path, changed)

    with pytest.raises(BadSource) as wrong:
        load_metrics([*OWN, file], SOURCES, UNITS)

    assert str(wrong.value).startswith(f"{file}: {told}")
