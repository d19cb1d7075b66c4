"""Rules, their versions, and episodes as markup."""

from collections.abc import Iterable, Mapping
from zoneinfo import ZoneInfo

from markupsafe import Markup

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
from web.dashboard.rules.figure import RuleFigure
from web.dashboard.shared.addresses import alert_address, rule_address
from web.dashboard.shared.alert_labels import instant_text, number_text, severity_chip, state_chip
from web.dashboard.shared.labels import NOTHING
from web.dashboard.shared.markup import (
    Content,
    card_row,
    card_table,
    element,
    join,
    link,
    note,
    row,
    second_line,
    span,
    table,
)

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


def rule_table(rules: Iterable[RuleVersion]) -> Markup:
    """A table with a row for each rule; on a phone each rule is a card."""
    return card_table(_RULES, map(_rule_row, rules))


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


def episode_table(drawn: RuleFigure, rule: Rule, zone: ZoneInfo, currency: str) -> Markup:
    """A table of the episodes by the store's clock, each with the alerts that were sent for it."""
    assert drawn.simulated is not None
    # The subject has a column only if an episode is of a single article.
    names = (_SUBJECT, *_EPISODES) if has_subjects(drawn) else _EPISODES
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
        cells: list[Content] = [
            *([subject_name(found.subject)] if has_subjects(drawn) else []),
            instant_text(from_millis(found.episode.start), zone),
            "open" if ended is None else instant_text(from_millis(ended), zone),
            NOTHING if found.value is None else number_text(metric, found.value, currency),
            "complete" if found.is_complete else "not complete",
            join(map(_alert_link, alerts), " ") or NOTHING,
        ]
        rows.append(
            row(
                *cells,
                data_episode=found.episode.start,
                data_complete=str(found.is_complete).lower(),
                data_subject=found.subject,
            )
        )
    return table(names, rows)


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
        link(rule_address(rule.rule_id), rule.rule_id) + second_line(rule.title),
        {name: span(cell) for name, cell in cells.items()},
        data_rule=rule.rule_id,
        data_retired=str(version.retired).lower(),
    )


def _version_row(version: RuleVersion) -> Markup:
    rule = version.rule
    article, unit = {"hour": ("an", "hour"), "day": ("a", "day")}.get(
        rule.grain, ("a", "quarter hour")
    )
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


def _alert_link(alert: ListedAlert) -> Markup:
    return link(alert_address(alert.alert_id), state_chip(alert.state), data_published=alert.state)
