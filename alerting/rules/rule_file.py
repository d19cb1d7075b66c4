"""Rules as people write them: parsed, and checked against the catalogue and other rules."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from pydantic import ValidationError

from alerting.rules.checks import RuleCatalogue, find_problems
from alerting.rules.field_descriptions import FIELD_HELP, UNSUPPORTED_FIELDS
from alerting.rules.rule import MAX_ENTRIES, MAX_STORES, RULE_ADAPTER, Rule
from tally.config.plain_values import list_problems, shorten_value
from tally.errors import BadRule

_MAX_CYCLES, _MAX_NAMED_RULES = 20, 6

_WANTED = {name: words.allowed for name, words in FIELD_HELP.items()}
# Defaults of a kind that differ from those of the others.
_KIND_DEFAULTS: Mapping[str, Mapping[str, str]] = {
    # A silence rule can only raise on silence.
    "silence": {"on_silence": "raise"},
    # The current stock is a fact at once, and only a single article can be sold out.
    "stock": {"evaluate": "eager", "subject": "item"},
}
_KNOWN = ", ".join(_WANTED)
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
        raise BadRule([f"{len(fields):,} fields, of which most are unknown; known are {_KNOWN}"])
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
    raise BadRule([*map(_explain_unsupported, problems)])


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
            shown = _cycle_text(circle[at:] + circle[:at])
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


def _cycle_text(circle: Sequence[str]) -> str:
    # A circle of thousands of rules must still fit on one line.
    left_out = ["…"] if len(circle) > _MAX_NAMED_RULES else []
    return " → ".join([*circle[:_MAX_NAMED_RULES], *left_out, circle[0]])


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
