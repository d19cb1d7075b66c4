"""Rules as people write them, one YAML file per rule: parsed, checked, and written."""

from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from pydantic import ValidationError

from alerting.rules.checks import RuleCatalogue, find_problems, rule_catalogue
from alerting.rules.field_descriptions import FIELD_HELP, UNSUPPORTED_FIELDS
from alerting.rules.rule import MAX_ENTRIES, MAX_STORES, RULE_ADAPTER, Rule, rule_to_fields
from runtime.registry.strict_yaml import dump_yaml, parse_yaml
from tally.config.plain_values import list_problems, shorten_value
from tally.errors import BadRule

# Room for the ids of 10,000 stores at full length, within what Kafka's client sends in one record.
MAX_BYTES = 900_000
_MAX_CYCLES, _MAX_NAMED_RULES = 20, 6
_WANTED = {name: words.allowed for name, words in FIELD_HELP.items()}
# Defaults of a kind that differ from those of the others.
_KIND_DEFAULTS: Mapping[str, Mapping[str, str]] = {
    # A silence rule can only raise on silence.
    "silence": {"on_silence": "raise"},
    # The current stock is a fact at once, and only a single article can be sold out.
    "stock": {"evaluate": "eager", "subject": "item"},
}
# More than a rule or a part of it has, and few enough to answer each unknown field with a line.
_MAX_FIELDS = 64


def validate_rule(values: object, catalogue: RuleCatalogue) -> Rule:
    """The rule from the plain values of a file.

    Raises BadRule with one line for each problem: field, what is wrong, the fix.
    """
    rule = rule_from_fields(values)
    if problems := find_problems(rule, catalogue):
        raise BadRule(problems)
    return rule


def rule_from_fields(fields: object) -> Rule:
    """The rule from these values, with its defaults filled in.

    Only their shape is checked, not their meaning. Raises BadRule with one line for each field that
    does not fit.
    """
    if not isinstance(fields, Mapping):
        raise BadRule(
            [f"{shorten_value(fields)} is no rule; fields are wanted, e.g. `rule_id: no-visitors`"]
        )
    if len(fields) > _MAX_FIELDS:
        raise BadRule(
            [f"{len(fields):,} fields, of which most are unknown; known are {', '.join(_WANTED)}"]
        )
    # Each wrong entry would be a problem, so they are counted before they are checked.
    long = {name: value for name, value in fields.items() if _is_too_long(name, value)}
    if long:
        raise BadRule(
            f"{name}: {shorten_value(value)} does not fit; wanted: {_WANTED[name]}"
            for name, value in long.items()
        )
    kind = fields.get("kind")
    defaults = _KIND_DEFAULTS.get(kind, {}) if isinstance(kind, str) else {}
    try:
        return RULE_ADAPTER.validate_python({**defaults, **fields})
    except ValidationError as error:
        problems = list_problems(error, _WANTED)
    raise BadRule(map(_explain_unsupported, problems))


def find_contradictions(
    rules: Mapping[str, Rule], known: Mapping[str, Rule] | None = None
) -> dict[str, list[str]]:
    """The contradictions between rules, by the id of the rule that has to change.

    In:  new rules by id, and those in force, None if these are not known.
    Out: no entry for a rule that fits, else one line for each problem of `unless`.
    """
    # A new rule replaces its own older version.
    whole = {**(known or {}), **rules}
    found: dict[str, list[str]] = {}
    for rule_id, rule in rules.items():
        missing = [name for name in rule.unless if known is not None and name not in whole]
        if missing:
            names = ", ".join(missing)
            found[rule_id] = [f"unless: there is no rule {names} in force; apply it too, or first"]
    for circle in _find_cycles({rule_id: rule.unless for rule_id, rule in whole.items()}):
        # No new rule can break a circle that consists only of rules in force.
        if named := [name for name in circle if name in rules]:
            at = circle.index(named[0])
            links = circle[at:] + circle[:at]
            # A circle of thousands of rules must still fit on one line.
            left_out = ["…"] if len(links) > _MAX_NAMED_RULES else []
            shown = " → ".join([*links[:_MAX_NAMED_RULES], *left_out, links[0]])
            problem = f"unless: {shown} is a circle, and each waits for the other; break it"
            found.setdefault(named[0], []).append(problem)
    return found


def _find_cycles(unless: Mapping[str, Iterable[str]]) -> Iterator[list[str]]:
    """Circles of rules, each naming the next and the last the first.

    One link of each found circle is removed before the search for the next one.
    """
    graph = {rule_id: dict.fromkeys(named) for rule_id, named in unless.items()}
    for _ in range(_MAX_CYCLES):
        try:
            TopologicalSorter(graph).prepare()
            return
        except CycleError as error:
            # In the error's list each rule is named by the next one.
            circle: list[str] = error.args[1][::-1]
            yield circle[:-1]
            # Concurrent writers may have made a circle of rules in force; it must not hide others.
            del graph[circle[0]][circle[1]]


def _is_too_long(name: object, value: object) -> bool:
    if name not in _WANTED:
        return False
    entries = value if isinstance(value, list) else [value]
    most = MAX_STORES if name == "stores" else MAX_ENTRIES
    mappings = (entry for entry in entries if isinstance(entry, Mapping))
    return len(entries) > most or any(len(fields) > _MAX_FIELDS for fields in mappings)


def _explain_unsupported(problem: str) -> str:
    name = problem.partition(":")[0]
    if name not in UNSUPPORTED_FIELDS:
        return problem
    return f"{name}: is no field: {UNSUPPORTED_FIELDS[name]}; leave it out"


def parse_rule_yaml(text: str | bytes, catalogue: RuleCatalogue | None = None) -> Rule:
    """Parse the YAML text as a rule; metrics are of the catalogue, by default the product's.

    Raises BadRule with one line for each problem: field, what is wrong, the fix.
    """
    try:
        content = text if isinstance(text, bytes) else text.encode()
        # Checked before parsing: the parser takes seconds per megabyte.
        if len(content) > MAX_BYTES:
            raise BadRule([f"the text has {len(content):,} bytes; {MAX_BYTES:,} are the most"])
        document = parse_yaml(content)
    # A text with half of a surrogate pair cannot be encoded.
    except ValueError as error:
        # The text quotes the file, whose content is untrusted: it is made safe for a terminal.
        signs = (sign if sign.isprintable() else "?" for sign in str(error)[:300])
        shown = "".join(signs)
        raise BadRule([f"it cannot be read as YAML: {shown}"]) from error
    return validate_rule(document, catalogue or rule_catalogue())


def dump_rule_yaml(rule: Rule) -> str:
    """The YAML text that parse_rule_yaml() reads as the rule, without fields that are defaults."""
    plain = rule_from_fields({"rule_id": rule.rule_id, "kind": rule.kind})
    default = rule_to_fields(plain) | {"kind": "threshold"}
    values = rule_to_fields(rule)
    named = {name: value for name, value in values.items() if value != default[name]}
    return dump_yaml({"rule_id": rule.rule_id, **_to_texts(named)})


def _to_texts(value: Any) -> Any:
    """The value with every scalar as the text from which it is parsed."""
    match value:
        case dict():
            # One of `change` and `sigmas` is given, and the other is None.
            values = {name: entry for name, entry in value.items() if entry is not None}
            return {name: _to_texts(entry) for name, entry in values.items()}
        case list():
            return [_to_texts(entry) for entry in value]
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:.6f}".rstrip("0").rstrip(".")
    return str(value)
