"""Rules and their versions, and what the editor says of a rule's text, as markup."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from markupsafe import Markup

from alerting.health.store import REASON_TEXTS, StoreHealth
from alerting.queries.known_rules import RuleDraft, RuleProblem
from alerting.rules.rule import (
    AgainstBaseline,
    Condition,
    InGroup,
    Rule,
    RuleGrain,
    RuleVersion,
    Threshold,
)
from alerting.rules.versions import RuleFieldChange, RulePlan, effective_from
from tally.time.instants import from_millis
from web.dashboard.alerts.markup import severity_chip
from web.dashboard.shared import markup
from web.dashboard.shared.addresses import rule_address
from web.dashboard.shared.labels import NOTHING, instant_text
from web.dashboard.shared.markup import card_row, element, link, note, row, span, table

_RULES = ("Rule", "Calls for an alert", "Stores", "Severity", "Version")
_VERSIONS = ("Version", "In force from (UTC)", "Calls for an alert", "Stores", "For")
_UTC = ZoneInfo("UTC")
# The same words as in `tally rules diff`.
_WORDS = {
    "new": "A new rule",
    "version": "A new version",
    "revision": "Published in another way from now on, without a new version",
    "same": "Applying it changes nothing",
}
_CHANGE_COLUMNS = ("Field", "Before", "After")
_MAX_CHARACTERS = 300
_GRAIN_TEXTS: Mapping[RuleGrain, str] = {
    "quarter_hour": "",
    "hour": " in an hour",
    "day": " in a day",
    "since_opening": " since opening",
}


def rule_table(rules: Iterable[RuleVersion]) -> Markup:
    """A table with a row for each rule; on a phone each rule is a card."""
    return markup.card_table(_RULES, map(_rule_row, rules))


def health_text(health: StoreHealth | None, zone: ZoneInfo) -> Markup:
    """Whether a rule can be evaluated in a store, and if not, since when in the given time zone."""
    if health is None:
        return note("It is not in force here.", data_judged="none")
    if health.reason is None:
        return note("It is judged.", data_judged="true")
    since = ""
    if health.since is not None:
        # The health check does not look further back than this.
        word = "at the latest since" if health.is_earlier else "since"
        since = f" {word} {instant_text(from_millis(health.since), zone)}"
    return note(
        element("strong", "Cannot be judged"),
        f"{since}: {REASON_TEXTS[health.reason]}.",
        role="status",
        data_judged="false",
        data_reason=health.reason,
    )


def version_table(versions: Iterable[RuleVersion]) -> Markup:
    """A table with a row for each version, the newest first."""
    return table(_VERSIONS, map(_version_row, reversed([*versions])), "t-versions")


def condition_text(rule: Rule) -> str:
    """The condition on which a rule calls for an alert, in words.

    >>> from decimal import Decimal
    >>> condition_text(Rule(rule_id="a", metric="units", condition=Threshold(">", Decimal(6))))
    'units > 6'
    >>> from alerting.rules.rule import FurtherCondition
    >>> few = FurtherCondition("transactions", "<", Decimal(5))
    >>> many = Threshold(">=", Decimal(100))
    >>> condition_text(Rule(rule_id="a", metric="visitors_in", condition=many, and_=(few,)))
    'visitors_in >= 100 and transactions < 5'
    >>> condition_text(Rule(rule_id="a", metric="units", condition=many, grain="hour"))
    'units >= 100 in an hour'
    >>> usual = AgainstBaseline("hour_of_week", sigmas=3)
    >>> condition_text(Rule(rule_id="a", kind="baseline", metric="units", condition=usual))
    'units off hour_of_week by 3 deviations'
    """
    if rule.kind == "silence":
        return f"{rule.family} is silent"
    begins, clear = f"{rule.metric} {_begin(rule.condition)}", rule.clear
    for further in rule.and_:
        begins += f" and {further.metric} {_begin(further.threshold)}"
    begins += _GRAIN_TEXTS[rule.grain]
    return begins if clear is None else f"{begins}; ends {_end(clear)}"


def version_text(version: RuleVersion) -> str:
    """The version's number, as `tally rules` writes it."""
    return f"{version.version}" + ("" if version.revision == 1 else f".{version.revision}")


def _begin(condition: Condition | None) -> str:
    if isinstance(condition, Threshold):
        return f"{condition.op} {condition.value:f}"
    if isinstance(condition, AgainstBaseline) and condition.sigmas is not None:
        return f"off {condition.baseline} by {condition.sigmas:g} deviations"
    if isinstance(condition, AgainstBaseline):
        return f"{condition.change} of {condition.baseline}"
    return NOTHING


def _end(clear: Condition) -> str:
    """The clear condition in words, without its baseline, which the begin condition names."""
    if isinstance(clear, Threshold):
        return f"at {clear.op} {clear.value:f}"
    return f"at {clear.change}" if clear.sigmas is None else f"within {clear.sigmas:g} deviations"


def _rule_row(version: RuleVersion) -> Markup:
    rule = version.rule
    state = "retired" if version.retired else "in force"
    cells = {
        "Calls for an alert": condition_text(rule),
        "Stores": _stores_text(rule),
        "Severity": severity_chip(rule.severity),
        "Version": span(f"{version.version}, {state}", data_state=state),
    }
    return card_row(
        link(rule_address(rule.rule_id), rule.rule_id) + markup.second_line(rule.title),
        {name: span(cell) for name, cell in cells.items()},
        data_rule=rule.rule_id,
        data_retired=str(version.retired).lower(),
    )


def _version_row(version: RuleVersion) -> Markup:
    rule = version.rule
    units = {"hour": ("an", "hour"), "day": ("a", "day")}
    article, unit = units.get(rule.grain, ("a", "quarter hour"))
    return row(
        version_text(version),
        instant_text(from_millis(version.effective_from), _UTC),
        "nothing: retired" if version.retired else condition_text(rule),
        _stores_text(rule),
        f"{rule.for_} {unit}s" if rule.for_ > 1 else f"{article} {unit}",
        data_version=version.version,
    )


def _stores_text(rule: Rule) -> str:
    if rule.stores == "all":
        return "all"
    if isinstance(rule.stores, InGroup):
        return f"group {rule.stores.region}"
    # A rule may name ten thousand stores, so only the first four are listed.
    left = len(rule.stores) - 4
    return ", ".join(rule.stores[:4]) + (f" and {left:,} more" if left > 0 else "")


def draft_text(draft: RuleDraft) -> Markup:
    """Whether the text is a valid rule, with a line for each problem."""
    if not draft.problems:
        return note("✓ The rule fits.", data_state="complete", data_fits="true")
    count = len(draft.problems)
    head = f"⊘ {count} problem{'' if count == 1 else 's'}"
    summary = note(head, data_state="missing", data_fits="false")
    return summary + element("ul", *map(_problem, draft.problems), class_="t-problems")


def plan_text(plan: RulePlan, now_millis: int) -> Markup:
    """What applying the rule would change, and from when; `now_millis`: ms since 1970 (UTC)."""
    words = _WORDS[plan.change]
    if plan.change in ("new", "version"):
        # The brokers' clock decides, and it may differ from ours, hence "at the earliest".
        since = instant_text(from_millis(effective_from(now_millis)), _UTC)
        words += f"; written now it is in force from {since} UTC at the earliest"
    summary = note(f"{words}.", data_change=plan.change)
    # All fields of a new rule are new, so they are not listed as changes.
    if plan.change == "new" or not plan.fields:
        return summary
    return summary + markup.scroll(
        table(_CHANGE_COLUMNS, map(_change_row, plan.fields)), aria_label="Changes"
    )


def in_force_text(version: RuleVersion) -> Markup:
    """The message that a version is in force, as it was read back."""
    since = instant_text(from_millis(version.effective_from), _UTC)
    text = f"✓ {version.rule.rule_id} version {version_text(version)} holds, in force from {since}"
    applied = f"{version.version}.{version.revision}"
    return note(f"{text} UTC.", role="status", data_applied=applied)


def _problem(problem: RuleProblem) -> Markup:
    is_long = len(problem.text) > _MAX_CHARACTERS
    text = problem.text[:_MAX_CHARACTERS] + ("…" if is_long else "")
    if problem.line is None:
        return element("li", text, data_line="")
    place = element("strong", f"line {problem.line}")
    return element("li", place, f" {text}", data_line=problem.line)


def _change_row(change: RuleFieldChange) -> Markup:
    texts = (change.field, _value_text(change.before), _value_text(change.after))
    return row(*(text[:_MAX_CHARACTERS] for text in texts), data_field=change.field)


def _value_text(value: Any) -> str:
    match value:
        case None | "":
            return NOTHING
        case Mapping():
            parts = {name: part for name, part in value.items() if part is not None}
            texts = (f"{name} {_value_text(part)}" for name, part in parts.items())
            return ", ".join(texts) or NOTHING
        case str():
            return value
        case Sequence():
            return ", ".join(map(_value_text, value)) or NOTHING
    return str(value)
