"""A rule as people write it: read, and checked against the catalogue and against other rules."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from tally.alerts.rule import Rule
from tally.alerts.rule_checks import RuleCatalogue, problems_of
from tally.alerts.rule_shape import rule_of
from tally.errors import BadRule

_MOST_CIRCLES, _MOST_SHOWN = 20, 6


def checked_rule(told: object, catalogue: RuleCatalogue) -> Rule:
    """The rule that the plain values of a file are.

    Raises BadRule with one line for each problem: field, what is wrong, the fix.
    """
    rule = rule_of(told)
    if problems := problems_of(rule, catalogue):
        raise BadRule(problems)
    return rule


def problems_together(
    rules: Mapping[str, Rule], known: Mapping[str, Rule] | None = None
) -> dict[str, list[str]]:
    """What does not fit between rules, by the id of the rule that has to change.

    In:  new rules by id, and those in force; None: nobody knows which there are.
    Out: nothing for rules that fit; else one line a problem, of `unless`.
    """
    # A new rule takes the place of its own older version.
    whole = {**(known or {}), **rules}
    found: dict[str, list[str]] = {}
    for rule_id, rule in rules.items():
        missing = [one for one in rule.unless if known is not None and one not in whole]
        if missing:
            told = ", ".join(missing)
            found[rule_id] = [f"unless: there is no rule {told} in force; apply it too, or first"]
    for way in _circles({rule_id: rule.unless for rule_id, rule in whole.items()}):
        # Of a circle that only rules in force make none of the new ones can undo anything.
        if named := [one for one in way if one in rules]:
            at = way.index(named[0])
            shown = _shown(way[at:] + way[:at])
            problem = f"unless: {shown} is a circle, and each waits for the other; break it"
            found.setdefault(named[0], []).append(problem)
    return found


def _circles(unless: Mapping[str, Iterable[str]]) -> Iterator[list[str]]:
    """Circles of rules, each of which names the next and the last one the first; parted one by
    one."""
    graph = {rule_id: dict.fromkeys(named) for rule_id, named in unless.items()}
    for _ in range(_MOST_CIRCLES):
        try:
            TopologicalSorter(graph).prepare()
            return
        except CycleError as error:
            # Of its list each is named by the next.
            way: list[str] = error.args[1][::-1]
            yield way[:-1]
            # Two writers at once may have made one of rules in force: it must not hide others.
            del graph[way[0]][way[1]]


def _shown(way: Sequence[str]) -> str:
    # A circle of thousands is still one line.
    left_out = ["…"] if len(way) > _MOST_SHOWN else []
    return " → ".join([*way[:_MOST_SHOWN], *left_out, way[0]])
