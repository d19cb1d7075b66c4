"""Rules, their versions, and episodes as markup; every name is escaped where it is inserted."""

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any
from zoneinfo import ZoneInfo

from alerting.alert.ids import WHOLE_STORE
from alerting.health.store import REASON_TEXTS, StoreHealth
from alerting.queries.alerts import ListedAlert, window_start
from alerting.rules.rule import (
    AgainstBaseline,
    Condition,
    InGroup,
    Rule,
    RuleGrain,
    RuleVersion,
    Threshold,
)
from tally.time.instants import from_millis, to_millis
from web.dashboard.rules.source import RuleFigure
from web.dashboard.shared.addresses import alert_address, rule_address
from web.dashboard.shared.alert_labels import SEVERITIES, instant_text, number_text, state_chip
from web.dashboard.shared.labels import NOTHING

_RULES = ("Rule", "Calls for an alert", "Stores", "Severity", "Version")
_VERSIONS = ("Version", "In force from (UTC)", "Calls for an alert", "Stores", "For")
_SUBJECT = "What of it"
_EPISODES = ("Begins", "Ends", "Number", "Served", "Published")
_UTC = ZoneInfo("UTC")
_GRAIN_TEXTS: Mapping[RuleGrain, str] = {
    "quarter_hour": "",
    "hour": " in an hour",
    "day": " in a day",
    "since_opening": " since opening",
}


def rule_table(rules: Iterable[RuleVersion]) -> str:
    """A table with a row for each rule; on a phone each rule is a card."""
    head = "".join(f"<th scope='col' role='columnheader'>{name}</th>" for name in _RULES)
    rows = "".join(_rule_row(version) for version in rules)
    return (
        "<table class='t-table t-stores t-alerts' role='table'><thead role='rowgroup'>"
        f"<tr role='row'>{head}</tr></thead><tbody role='rowgroup'>{rows}</tbody></table>"
    )


def health_text(health: StoreHealth | None, zone: ZoneInfo) -> str:
    """Whether a rule can be judged in a store, and if not, since when in the given time zone."""
    if health is None:
        return "<p class='t-known' data-judged='none'>It is not in force here.</p>"
    if health.reason is None:
        return "<p class='t-known' data-judged='true'>It is judged.</p>"
    since = ""
    if health.since is not None:
        # The health check does not look further back than this.
        word = "at the latest since" if health.is_earlier else "since"
        since = f" {word} {instant_text(from_millis(health.since), zone)}"
    words = escape(f"{since}: {REASON_TEXTS[health.reason]}.")
    attrs = f"data-judged='false' data-reason='{health.reason}'"
    return f"<p class='t-known' role='status' {attrs}><strong>Cannot be judged</strong>{words}</p>"


def version_table(versions: Iterable[RuleVersion]) -> str:
    """A table with a row for each version, the newest first."""
    head = "".join(f"<th scope='col'>{name}</th>" for name in _VERSIONS)
    rows = "".join(_version_row(version) for version in reversed([*versions]))
    return (
        "<table class='t-table t-versions'>"
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )


def episode_table(drawn: RuleFigure, rule: Rule, zone: ZoneInfo, currency: str) -> str:
    """A table of the episodes by the store's clock, each with the alerts that were sent for it."""
    assert drawn.simulated is not None
    # The subject has a column only if an episode is of a single article.
    names = (_SUBJECT, *_EPISODES) if has_subjects(drawn) else _EPISODES
    head = "".join(f"<th scope='col'>{name}</th>" for name in names)
    rows = []
    for found in drawn.simulated.episodes:
        # An alert belongs to the episode that contains its window, as in the evaluator.
        alerts = [
            alert
            for alert in drawn.published
            if (alert.edge, alert.subject) == ("raise", found.subject)
            and found.episode.contains(to_millis(window_start(alert)))
        ]
        ended = found.episode.ended
        # The number of a silence rule counts the events of its family.
        metric = rule.metric or rule.family or ""
        number = NOTHING if found.value is None else number_text(metric, found.value, currency)
        cells = [
            escape(instant_text(from_millis(found.episode.start), zone)),
            "open" if ended is None else escape(instant_text(from_millis(ended), zone)),
            escape(number),
            "complete" if found.is_complete else "not complete",
            " ".join(map(_alert_link, alerts)) or NOTHING,
        ]
        attrs = (
            f"data-episode='{found.episode.start}' data-complete='{str(found.is_complete).lower()}'"
        )
        attrs += f" data-subject='{escape(found.subject)}'"
        if has_subjects(drawn):
            cells.insert(0, escape(subject_name(found.subject)))
        rows.append(f"<tr {attrs}>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    body = "".join(rows)
    return f"<table class='t-table'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def has_subjects(drawn: RuleFigure) -> bool:
    """Whether an episode is of single articles."""
    assert drawn.simulated is not None
    return any(simulated.subject != WHOLE_STORE for simulated in drawn.simulated.episodes)


def subject_name(subject: str) -> str:
    """The subject of an episode or alert within the store, as text.

    >>> subject_name("item:milk"), subject_name("none")
    ('item:milk', 'all of it')
    """
    return "all of it" if subject == WHOLE_STORE else subject


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
    return (
        f"{version.version}" if version.revision == 1 else f"{version.version}.{version.revision}"
    )


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


def _rule_row(version: RuleVersion) -> str:
    rule = version.rule
    title = f"<span class='t-change'>{escape(rule.title)}</span>" if rule.title else ""
    kind, sign = SEVERITIES.get(rule.severity, ("", ""))
    chip = f"<span class='t-chip t-{kind}'>{sign} {escape(rule.severity)}</span>"
    state = "retired" if version.retired else "in force"
    cells = {
        "Calls for an alert": escape(condition_text(rule)),
        "Stores": escape(_stores_text(rule)),
        "Severity": chip,
        "Version": f"<span data-state='{state}'>{version.version}, {state}</span>",
    }
    shown = "".join(
        f"<td role='cell' data-label='{name}'><span>{text}</span></td>"
        for name, text in cells.items()
    )
    attrs = f"data-rule='{escape(rule.rule_id)}' data-retired='{str(version.retired).lower()}'"
    return (
        f"<tr role='row' {attrs}><th scope='row' role='rowheader'>"
        f"<a href='{escape(rule_address(rule.rule_id))}'>{escape(rule.rule_id)}</a>{title}</th>"
        f"{shown}</tr>"
    )


def _version_row(version: RuleVersion) -> str:
    rule = version.rule
    article, unit = {"hour": ("an", "hour"), "day": ("a", "day")}.get(
        rule.grain, ("a", "quarter hour")
    )
    runs = f"{rule.for_} {unit}s" if rule.for_ > 1 else f"{article} {unit}"
    condition = "nothing: retired" if version.retired else condition_text(rule)
    shown: tuple[Any, ...] = (
        version_text(version),
        instant_text(from_millis(version.effective_from), _UTC),
        condition,
        _stores_text(rule),
        runs,
    )
    cells = "".join(f"<td>{escape(str(cell))}</td>" for cell in shown)
    return f"<tr data-version='{version.version}'>{cells}</tr>"


def _stores_text(rule: Rule) -> str:
    if rule.stores == "all":
        return "all"
    if isinstance(rule.stores, InGroup):
        return f"group {rule.stores.region}"
    # A rule may name ten thousand stores, so only the first four are listed.
    left = len(rule.stores) - 4
    return ", ".join(rule.stores[:4]) + (f" and {left:,} more" if left > 0 else "")


def _alert_link(alert: ListedAlert) -> str:
    address = escape(alert_address(alert.alert_id))
    return f"<a href='{address}' data-published='{alert.state}'>{state_chip(alert.state)}</a>"
