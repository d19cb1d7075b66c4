"""What readers find of rules in schemas/ and docs/ is what the type says."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from alerting.rules.field_descriptions import FIELD_HELP
from alerting.rules.rule import COSMETIC_FIELDS, Rule, rule_to_fields
from alerting.rules.rule_file import parse_rule_yaml
from ops.docs.reference import rule_copies, rule_schema, rules_page
from schemas.loader import FOLDER

NAMES = [*rule_to_fields(Rule(rule_id="a"))]
EXAMPLE = FOLDER / "rules" / "example.yaml"
GOOD: dict[str, Any] = {"rule_id": "a", "metric": "b"}


def test_the_schema_for_readers_is_that_of_the_type() -> None:
    stale = [file for file, text in rule_copies().items() if file.read_text("utf-8") != text]

    assert stale == [], "run `python -m ops.docs`"


def test_every_field_has_its_words_and_no_other() -> None:
    assert [*FIELD_HELP] == NAMES == [*rule_schema()["properties"]]
    assert {one for one, told in rule_schema()["properties"].items() if "x-unit" in told} == {
        "for",
        "clear_for",
        "delay",
        "late_after",
    }
    page = rules_page()
    assert [name for name in NAMES if f"\n| `{name}` | " not in page] == []
    assert page.count("| no |") == len(COSMETIC_FIELDS)


def test_the_schema_is_valid_and_takes_the_example_as_yaml_has_it() -> None:
    schema = rule_schema()
    Draft202012Validator.check_schema(schema)
    text = EXAMPLE.read_text("utf-8")

    assert parse_rule_yaml(text).rule_id == "few-customers-buy"
    assert [*Draft202012Validator(schema).iter_errors(yaml.safe_load(text))] == []


@pytest.mark.parametrize(
    "changed",
    [
        {"rule_id": "A"},
        {"for": 0},
        {"for": 97},
        {"delay": 3601},
        {"stores": []},
        {"stores": [str(one) for one in range(10_001)]},
        {"condition": {"op": "=", "value": 1}},
        {"condition": {"op": ">", "value": "1e400"}},
        {"within": "sometimes"},
        {"minimum": {"a": 0}},
        {"effective_from": "2017-01-01"},
    ],
)
def test_the_schema_refuses_what_the_type_refuses(changed: dict[str, Any]) -> None:
    validator = Draft202012Validator(rule_schema())

    assert [*validator.iter_errors(GOOD)] == []
    assert [*validator.iter_errors({**GOOD, **changed})] != []


def test_the_copy_lies_where_it_is_named(tmp_path: Path) -> None:
    [(file, text)] = rule_copies(tmp_path).items()

    assert file == tmp_path / "schemas" / "rules" / "rule.schema.json"
    assert json.loads(text)["title"] == "Rule of alerts"
