"""What a rule changes against the versions that are there: what is to be written for it."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from tally.alerts.rule import COSMETIC, Rule, RuleVersion, told_rule
from tally.alerts.versions import RuleChains, StoredRule, change_number, meaning
from tally.errors import TallyError

RuleChange = Literal["new", "version", "revision", "same"]

_RuleFields = Mapping[str, Any]


class RuleFieldChange(NamedTuple):
    """A field that gets another value, as a file has it; None: it says nothing."""

    field: str
    before: Any
    after: Any


class PlannedRule(NamedTuple):
    """What becomes of a rule: the record to be written, None if nothing changes; and its fields."""

    rule_id: str
    change: RuleChange
    stored: StoredRule | None
    fields: tuple[RuleFieldChange, ...]


def planned(rule: Rule, newest: RuleVersion | None) -> PlannedRule:
    """What applying the rule writes beside its newest version, None of a rule that is not there.

    A retired rule comes back as a further version. What is written names the newest version as the
    change that it follows.
    """
    after = change_number(newest)
    if newest is None:
        fields = _changes({}, told_rule(rule))
        stored = StoredRule(rule=rule, version=1, after=after)
        return PlannedRule(rule.rule_id, "new", stored, fields)
    fields = _changes(told_rule(newest.rule), told_rule(rule))
    # Also with the same meaning: between the two nothing was called for.
    if newest.retired or meaning(rule) != meaning(newest.rule):
        stored = StoredRule(rule=rule, version=newest.version + 1, after=after)
        return PlannedRule(rule.rule_id, "version", stored, fields)
    # Another order of stores is a change of the file, and of nothing else.
    cosmetic = tuple(one for one in fields if one.field in COSMETIC)
    if not cosmetic:
        return PlannedRule(rule.rule_id, "same", None, ())
    revision = newest.revision + 1
    stored = StoredRule(rule=rule, version=newest.version, revision=revision, after=after)
    return PlannedRule(rule.rule_id, "revision", stored, cosmetic)


def retirement(rule_id: str, chains: RuleChains) -> StoredRule:
    """The last version of a rule, by which nothing is called for any more.

    Raises TallyError for a rule that is not there, is retired, or that others wait for.
    """
    newest = chains.newest(rule_id)
    if newest is None or newest.retired:
        known = ", ".join(sorted(chains.living())) or "none"
        raise TallyError(f"rules: there is no rule {rule_id!r} in force; there are {known}")
    # They would wait for a rule that never opens again.
    waiting = [one for one, rule in chains.living().items() if rule_id in rule.unless]
    if waiting:
        raise TallyError(
            f"rules: {', '.join(waiting)} names {rule_id} in `unless`; apply it without, then"
            f" retire {rule_id}"
        )
    after = change_number(newest)
    return StoredRule(rule=newest.rule, version=newest.version + 1, retired=True, after=after)


def _changes(before: _RuleFields, after: _RuleFields) -> tuple[RuleFieldChange, ...]:
    return tuple(
        RuleFieldChange(name, before.get(name), value)
        for name, value in after.items()
        if before.get(name) != value
    )
