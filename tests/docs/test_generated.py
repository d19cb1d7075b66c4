"""The pages of docs/generated are those that the code makes."""

from typing import Any

import pytest

from ops.docs.__main__ import FOLDER, PAGES
from ops.docs.api import api_page, describe_limits, describe_type
from ops.docs.reference import codes, table
from schemas import loader


@pytest.mark.parametrize("name", PAGES)
def test_each_generated_page_is_current(name: str) -> None:
    assert (FOLDER / name).read_text("utf-8") == PAGES[name](), "run `python -m ops.docs`"


def test_no_other_page_is_called_generated() -> None:
    assert {file.name for file in FOLDER.iterdir()} == set(PAGES)


def test_the_page_of_metrics_has_each_metric_once_in_each_table() -> None:
    text = PAGES["metrics.md"]()

    assert {
        metric.id: text.count(f"\n| `{metric.id}` |") for metric in loader.metrics()
    } == dict.fromkeys((metric.id for metric in loader.metrics()), 2)


def document(**changed: Any) -> dict[str, Any]:
    """An application with one address that answers with one shape."""
    shape = {
        "description": "One thing.",
        "required": ["a"],
        "properties": {
            "a": {"type": "integer", "description": "of it"},
            "b": {"type": "string", "format": "date-time"},
        },
    }
    answer = {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}
    operation = {
        "summary": "Things",
        "parameters": [
            {"name": "n", "in": "query", "required": True, "schema": {"type": "string"}}
        ],
        "responses": {"200": {"description": "all of it", "content": answer}},
    }
    return {
        "info": {"title": "Example"},
        "paths": {"/things": {"get": operation}},
        "components": {"schemas": {"Thing": {**shape, **changed}}},
    }


def test_the_page_of_the_api_has_addresses_parameters_answers_and_shapes() -> None:
    text = api_page(document())

    assert [
        line
        for line in (
            "### GET /things",
            "| `n` | string | required |  |",
            "| 200 | [Thing](#thing) | all of it |",
            "### Thing",
            "| `a` | integer | of it |",
            "| `b` | instant; may be absent |  |",
        )
        if line not in text.splitlines()
    ] == []


def test_a_shape_that_two_applications_share_is_told_once() -> None:
    assert api_page(document(), document()).count("### Thing") == 1


def test_two_shapes_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="different shapes of the name Thing"):
        api_page(document(), document(description="Another thing."))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "string", "format": "date"}, "day"),
        ({"anyOf": [{"type": "integer"}, {"type": "number"}, {"type": "null"}]}, "number or null"),
        ({"enum": ["1h", "1d"]}, "`1h` or `1d`"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "map to integer"),
        ({"type": "array", "items": {"$ref": "#/x/Row"}}, "list of [Row](#row)"),
        ({"type": "string", "maxLength": 1000}, "string, at most 1,000 characters"),
        ({"type": "integer", "minimum": 1, "maximum": 10_000}, "integer, 1 to 10,000"),
    ],
)
def test_schemas_are_told_in_words(schema: dict[str, Any], words: str) -> None:
    assert describe_type(schema) + describe_limits(schema) == words


def test_a_bar_or_a_line_break_does_not_end_a_cell() -> None:
    assert table(("x",), [("a|b\nc",)]) == "| x |\n| --- |\n| a\\|b c |\n"
    assert codes([]) == "–"
