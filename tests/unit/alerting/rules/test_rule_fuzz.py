"""Whatever is in a rule file: it is a rule that says the same again, or lines refuse it."""

import json
from time import process_time
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from alerting.rules.rule import rule_to_fields
from alerting.rules.rule_file import MAX_BYTES, parse_rule_yaml, rule_from_fields, validate_rule
from alerting.rules.versions import RuleRecord, StoredRule, parse_entry
from tally.errors import BadRule
from tests.support.stack.nominal_processor import slowness
from tests.unit.alerting.rules.rules import CATALOGUE, GOOD, problems

FIELDS = [*rule_to_fields(rule_from_fields(GOOD["threshold"])), "effective_from", "op", "value"]
HOSTILE: st.SearchStrategy[Any] = st.sampled_from(
    [
        "1e400",
        "NaN",
        "-0",
        "null",
        "all",
        "always",
        ">=",
        "<= -30 %",
        "08:00",
        "true",
        "367",
        "\x00",
        "\ud800",
        "\u202e",
        "'",
        "{",
        "%",
        "9" * 400,
        10**40,
        -(10**18),
        float("nan"),
        float("inf"),
        True,
        None,
        [],
        {},
        [[]],
        {"op": ">=", "value": "6"},
        {"region": "west"},
        {"baseline": "hour_of_week", "sigmas": "3"},
        [{"days": "mon", "from": "08:00", "to": "9"}],
    ]
)
HOSTILE_KEYS = st.sampled_from([*FIELDS, "", "|", "region", "days", "from", "to", "sigmas"])
PLAIN = st.recursive(
    HOSTILE | st.text() | st.integers() | st.floats() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text() | HOSTILE_KEYS, inner),
    max_leaves=8,
)
MUTATIONS = st.dictionaries(st.sampled_from(FIELDS), PLAIN | HOSTILE, max_size=4)


def taken_or_refused(content: Any) -> None:
    """Either way is right; a rule says the same when it is written and read again."""
    try:
        if isinstance(content, str | bytes):
            found = parse_rule_yaml(content, CATALOGUE)
        else:
            found = validate_rule(content, CATALOGUE)
    except BadRule as error:
        assert error.problems and all(one and one.isprintable() for one in error.problems)
        assert len(str(error)) < 40_000
    else:
        stored = StoredRule(rule=found, version=1)
        again = parse_entry(RuleRecord(0, stored.key.encode(), stored.value, 0))
        assert (again.stored, again.problem) == (stored, "")


@given(st.sampled_from([*GOOD]), MUTATIONS)
def test_good_rules_with_hostile_values(kind: str, changed: dict[str, Any]) -> None:
    taken_or_refused({**GOOD[kind], **changed})


@given(PLAIN)
def test_any_values(told: Any) -> None:
    taken_or_refused(told)


@given(st.text() | st.binary())
def test_any_text(content: str | bytes) -> None:
    taken_or_refused(content)


@given(st.sampled_from([*GOOD]), st.data())
def test_texts_of_good_rules_cut_doubled_and_scrawled_upon(kind: str, data: st.DataObject) -> None:
    text = yaml.safe_dump(GOOD[kind])
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    scrawl = data.draw(st.sampled_from(["", text[start:end], "&a *a", "!!x ", "\t", "{[", ": "]))

    taken_or_refused(text[:start] + scrawl + text[end:])


@given(st.binary(), st.binary())
def test_no_record_stops_a_reader(key: bytes, value: bytes) -> None:
    entry = parse_entry(RuleRecord(7, key, value, 0))

    assert entry.stored is None and entry.problem.startswith("offset 7: ")


@given(PLAIN, PLAIN, PLAIN)
def test_no_record_that_looks_like_one_stops_a_reader(rule: Any, version: Any, more: Any) -> None:
    told = {"rule_id": "a", "version": version, "revision": more, "retired": more, "rule": rule}

    entry = parse_entry(RuleRecord(7, b"a|1", json.dumps(told).encode(), 0))

    assert (entry.stored is None) == bool(entry.problem)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "None is no rule; fields are wanted"),
        ("- a", "['a'] is no rule"),
        ("rule_id: a\nrule_id: b\n", "it cannot be read as YAML: rule_id stands there twice"),
        ("rule_id: &x a\ntitle: *x\n", "it cannot be read as YAML: an alias is not taken"),
        ("a: 1\n---\nb: 2\n", "it cannot be read as YAML: expected a single document"),
        ("[" * 5_000, "it cannot be read as YAML: "),
        ("rule_id: \x07", "it cannot be read as YAML: "),
        (b"\xff\xfe", "it cannot be read as YAML: "),
        ("rule_id: \ud800", "it cannot be read as YAML: "),
        ("x" * 10_000_000, f"the text has 10,000,000 bytes; {MAX_BYTES:,} are the most"),
        ("{}", "rule_id: is missing"),
    ],
)
def test_what_is_no_rule_at_all_is_one_line(text: str | bytes, said: str) -> None:
    [problem] = problems(text)[:1]

    assert problem.startswith(said)
    assert "\n" not in problem and len(problem) < 500


def test_of_many_problems_the_first_fifty_are_told_and_how_many_more() -> None:
    found = problems({**GOOD["threshold"], **{f"a{number}": 1 for number in range(60)}})

    assert (len(found), found[-1]) == (51, "and 10 more")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({f"a{number}": 1 for number in range(300_000)}, "300,004 fields, of which most are"),
        ({"condition": {f"a{number}": 1 for number in range(300_000)}}, "condition: {'a0': 1,"),
        ({"minimum": {f"a{number}": 0 for number in range(300_000)}}, "minimum: {'a0': 0,"),
        ({"and": [{f"a{number}": 1 for number in range(300_000)}]}, "and: [{'a0': 1,"),
        ({"unless": ["A"] * 300_000}, "unless: ['A',"),
        ({"stores": [[]] * 300_000}, "stores: [[],"),
    ],
)
def test_a_rule_of_hundreds_of_thousands_of_mistakes_is_one_problem(
    changed: dict[str, Any], said: str
) -> None:
    began = process_time()

    [problem] = problems({**GOOD["threshold"], **changed})

    assert problem.startswith(said) and len(problem) < 700
    # Each mistake as an error of its own would take half a minute.
    assert process_time() - began < 2 * slowness()
