"""The change that applying a rule makes to its stored versions, and the record to write for it."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from alerting.rules.rule import COSMETIC_FIELDS, Rule, RuleVersion, rule_to_fields
from alerting.rules.versions import RuleHistory, StoredRule, change_number, meaning_fields
from tally.errors import TallyError

RuleChange = Literal["new", "version", "revision", "same"]

_RuleFields = Mapping[str, Any]


class RuleFieldChange(NamedTuple):
    """A field that gets another value, as written in a file; None where it has no value."""

    field: str
    before: Any
    after: Any


class RulePlan(NamedTuple):
    """The plan for a rule: the record to write, None if nothing changes, and the changed fields."""

    rule_id: str
    change: RuleChange
    stored: StoredRule | None
    fields: tuple[RuleFieldChange, ...]


def plan_rule(rule: Rule, newest: RuleVersion | None) -> RulePlan:
    """The plan for applying a rule after its newest version, None where the rule does not exist.

    A retired rule comes back as a further version. The record to write names the newest version as
    the change that it follows.
    """
    after = change_number(newest)
    if newest is None:
        fields = _changes({}, rule_to_fields(rule))
        stored = StoredRule(rule=rule, version=1, after=after)
        return RulePlan(rule.rule_id, "new", stored, fields)
    fields = _changes(rule_to_fields(newest.rule), rule_to_fields(rule))
    # A retired rule needs a version even with the same meaning: it raised nothing in between.
    if newest.retired or meaning_fields(rule) != meaning_fields(newest.rule):
        stored = StoredRule(rule=rule, version=newest.version + 1, after=after)
        return RulePlan(rule.rule_id, "version", stored, fields)
    # Another order of stores changes only the file.
    cosmetic = tuple(change for change in fields if change.field in COSMETIC_FIELDS)
    if not cosmetic:
        return RulePlan(rule.rule_id, "same", None, ())
    revision = newest.revision + 1
    stored = StoredRule(rule=rule, version=newest.version, revision=revision, after=after)
    return RulePlan(rule.rule_id, "revision", stored, cosmetic)


def plan_retirement(rule_id: str, chains: RuleHistory) -> StoredRule:
    """The last version of a rule, from which on the rule raises no alerts.

    Raises TallyError for a rule that does not exist, is retired, or that other rules wait for.
    """
    newest = chains.newest_version(rule_id)
    if newest is None or newest.retired:
        known = ", ".join(sorted(chains.active_rules())) or "none"
        raise TallyError(f"rules: there is no rule {rule_id!r} in force; there are {known}")
    # The other rules would wait for a rule that never opens an episode again.
    waiting = [name for name, rule in chains.active_rules().items() if rule_id in rule.unless]
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
