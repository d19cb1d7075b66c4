"""The rule editor's messages as markup; every name is escaped where it is inserted."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any
from zoneinfo import ZoneInfo

from alerting.queries.rule_editing import RuleDraft, RuleProblem
from alerting.rules.changes import RuleFieldChange, RulePlan
from alerting.rules.rule import RuleVersion
from alerting.rules.versions import effective_from
from tally.time.instants import from_millis
from web.dashboard.rules.markup import version_text
from web.dashboard.shared.alert_labels import instant_text
from web.dashboard.shared.labels import NOTHING

# The same words as in `tally rules diff`.
_WORDS = {
    "new": "A new rule",
    "version": "A new version",
    "revision": "Published in another way from now on, without a new version",
    "same": "Applying it changes nothing",
}
_COLUMNS = ("Field", "Before", "After")
_MAX_CHARACTERS = 300
_UTC = ZoneInfo("UTC")
# The initial text of a new rule, which is valid as it stands.
TEMPLATE = """\
rule_id: busy-quarter
metric: transactions
stores: all
condition: {op: ">=", value: 20}
clear: {op: "<=", value: 15}
severity: info
title: Many receipts in a quarter hour
"""


def draft_text(draft: RuleDraft) -> str:
    """Whether the text is a valid rule, with a line for each problem."""
    if not draft.problems:
        return "<p class='t-known' data-state='complete' data-fits='true'>✓ The rule fits.</p>"
    count = len(draft.problems)
    head = "1 problem" if count == 1 else f"{count} problems"
    rows = "".join(_problem(problem) for problem in draft.problems)
    summary = f"<p class='t-known' data-state='missing' data-fits='false'>⊘ {head}</p>"
    return f"{summary}<ul class='t-problems'>{rows}</ul>"


def plan_text(plan: RulePlan, now_millis: int) -> str:
    """What applying the rule would change, and from when; `now_millis`: ms since 1970 (UTC)."""
    words = f"<p class='t-known' data-change='{plan.change}'>{_WORDS[plan.change]}"
    if plan.change in ("new", "version"):
        # The brokers' clock decides, and it may differ from ours, hence "at the earliest".
        since = instant_text(from_millis(effective_from(now_millis)), _UTC)
        words += f"; written now it is in force from {since} UTC at the earliest"
    # All fields of a new rule are new, so they are not listed as changes.
    fields = () if plan.change == "new" else plan.fields
    return f"{words}.</p>{_changes(fields) if fields else ''}"


def in_force_text(version: RuleVersion) -> str:
    """The message that a version is in force, as it was read back."""
    since = instant_text(from_millis(version.effective_from), _UTC)
    summary = f"{escape(version.rule.rule_id)} version {version_text(version)} holds"
    number = f"{version.version}.{version.revision}"
    return (
        f"<p class='t-known' role='status' data-applied='{number}'>✓ {summary}, in force from"
        f" {since} UTC.</p>"
    )


def failure_text(reason: str) -> str:
    """The message why nothing was applied, and what to do."""
    return f"<p class='t-known' role='alert' data-refused='true'>⊘ {escape(reason)}</p>"


def _problem(problem: RuleProblem) -> str:
    place = "" if problem.line is None else f"<strong>line {problem.line}</strong> "
    text = (
        problem.text
        if len(problem.text) <= _MAX_CHARACTERS
        else f"{problem.text[:_MAX_CHARACTERS]}…"
    )
    line = "" if problem.line is None else problem.line
    return f"<li data-line='{line}'>{place}{escape(text)}</li>"


def _changes(fields: Iterable[RuleFieldChange]) -> str:
    head = "".join(f"<th scope='col'>{name}</th>" for name in _COLUMNS)
    rows = "".join(_change_row(field) for field in fields)
    return (
        "<div class='t-scroll' role='region' aria-label='Changes' tabindex='0'>"
        f"<table class='t-table'><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _change_row(change: RuleFieldChange) -> str:
    texts = (change.field, _value_text(change.before), _value_text(change.after))
    cells = "".join(f"<td>{escape(text[:_MAX_CHARACTERS])}</td>" for text in texts)
    return f"<tr data-field='{escape(change.field)}'>{cells}</tr>"


def _value_text(value: Any) -> str:
    match value:
        case None | "":
            return NOTHING
        case Mapping():
            parts = {name: part for name, part in value.items() if part is not None}
            return (
                ", ".join(f"{name} {_value_text(part)}" for name, part in parts.items()) or NOTHING
            )
        case str():
            return value
        case Sequence():
            return ", ".join(map(_value_text, value)) or NOTHING
    return str(value)
