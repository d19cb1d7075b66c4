"""Rules as people write them: parsed, and checked against the catalogue and other rules."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from alerting.rules.checks import RuleCatalogue, find_problems
from alerting.rules.parsing import rule_from_fields
from alerting.rules.rule import Rule
from tally.errors import BadRule

_MAX_CYCLES, _MAX_NAMED_RULES = 20, 6


def validate_rule(values: object, catalogue: RuleCatalogue) -> Rule:
    """The rule from the plain values of a file.

    Raises BadRule with one line for each problem: field, what is wrong, the fix.
    """
    rule = rule_from_fields(values)
    if problems := find_problems(rule, catalogue):
        raise BadRule(problems)
    return rule


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
