"""What the rule editor says of a text, as markup; every name is escaped where it is put in."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any
from zoneinfo import ZoneInfo

from serving.alerts.editing import RuleDraft, RuleProblem
from serving.dashboard.alert_labels import instant_text
from serving.dashboard.labels import NOTHING
from serving.dashboard.rule_markup import version_text
from tally.alerts.rule import RuleVersion
from tally.alerts.rule_changes import PlannedRule, RuleFieldChange
from tally.alerts.versions import effective_from
from tally.instants import from_millis

# As `tally rules diff` says it.
_WORDS = {
    "new": "A new rule",
    "version": "A new version",
    "revision": "Told otherwise from now on, without a new version",
    "same": "Applying it changes nothing",
}
_COLUMNS = ("Field", "Before", "After")
_MOST_TOLD = 300
_UTC = ZoneInfo("UTC")
# What a new rule begins with; it fits as it stands.
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
    """Whether the text fits, with a line for each problem, or that there is none."""
    if not draft.problems:
        return "<p class='t-known' data-state='complete' data-fits='true'>✓ The rule fits.</p>"
    count = len(draft.problems)
    head = "1 problem" if count == 1 else f"{count} problems"
    rows = "".join(_problem(one) for one in draft.problems)
    told = f"<p class='t-known' data-state='missing' data-fits='false'>⊘ {head}</p>"
    return f"{told}<ul class='t-problems'>{rows}</ul>"


def plan_text(plan: PlannedRule, now_millis: int) -> str:
    """What applying it would change, and from when; `now_millis`: ms since 1970 (UTC)."""
    words = f"<p class='t-known' data-change='{plan.change}'>{_WORDS[plan.change]}"
    if plan.change in ("new", "version"):
        # By the brokers' clock, which is not ours: so at the earliest.
        since = instant_text(from_millis(effective_from(now_millis)), _UTC)
        words += f"; written now it is in force from {since} UTC at the earliest"
    # Of a new rule all is new.
    fields = () if plan.change == "new" else plan.fields
    return f"{words}.</p>{_changes(fields) if fields else ''}"


def applied_text(version: RuleVersion) -> str:
    """That a version holds, as it was read back."""
    since = instant_text(from_millis(version.effective_from), _UTC)
    told = f"{escape(version.rule.rule_id)} version {version_text(version)} holds"
    number = f"{version.version}.{version.revision}"
    return (
        f"<p class='t-known' role='status' data-applied='{number}'>✓ {told}, in force from"
        f" {since} UTC.</p>"
    )


def refused_text(reason: str) -> str:
    """Why nothing was applied, and what to do."""
    return f"<p class='t-known' role='alert' data-refused='true'>⊘ {escape(reason)}</p>"


def _problem(one: RuleProblem) -> str:
    place = "" if one.line is None else f"<strong>line {one.line}</strong> "
    text = one.text if len(one.text) <= _MOST_TOLD else f"{one.text[:_MOST_TOLD]}…"
    line = "" if one.line is None else one.line
    return f"<li data-line='{line}'>{place}{escape(text)}</li>"


def _changes(fields: Iterable[RuleFieldChange]) -> str:
    head = "".join(f"<th scope='col'>{one}</th>" for one in _COLUMNS)
    rows = "".join(_change_row(one) for one in fields)
    return (
        "<div class='t-scroll' role='region' aria-label='Changes' tabindex='0'>"
        f"<table class='t-table'><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _change_row(one: RuleFieldChange) -> str:
    told = (one.field, _value_text(one.before), _value_text(one.after))
    cells = "".join(f"<td>{escape(text[:_MOST_TOLD])}</td>" for text in told)
    return f"<tr data-field='{escape(one.field)}'>{cells}</tr>"


def _value_text(value: Any) -> str:
    match value:
        case None | "":
            return NOTHING
        case Mapping():
            said = {name: one for name, one in value.items() if one is not None}
            return ", ".join(f"{name} {_value_text(one)}" for name, one in said.items()) or NOTHING
        case str():
            return value
        case Sequence():
            return ", ".join(map(_value_text, value)) or NOTHING
    return str(value)
