"""Markup for the inbox's rows and one alert's life; every name is escaped where it is inserted."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from zoneinfo import ZoneInfo

from alerting.queries.alerts import AlertLife, ListedAlert
from tally.alerts.message import Alert, ReadRows
from tally.time.instants import parse_instant
from web.dashboard.shared.addresses import alert_address, store_address
from web.dashboard.shared.alert_labels import (
    REASONS,
    SEVERITIES,
    instant_text,
    raise_time_text,
    state_chip,
    title_text,
    value_text,
    window_text,
)
from web.dashboard.shared.labels import NOTHING
from web.dashboard.shared.period import Period
from web.dashboard.shared.source import StoreChoice

_COLUMNS = ("Alert", "Store", "Raised", "Number", "Severity", "State")
_EVIDENCE_COLUMNS = ("Family", "UTC day", "Generation", "Epoch", "Events", "Source")
_STORE_DAYS = 7
# The legend of the alert marks above a chart.
MARK_KEY = (
    "<p class='t-sub'>On the charts above: ▲ begins, ▼ ends; filled is confirmed, hollow"
    " provisional, a grey struck ring taken back; the colour is the severity.</p>"
)
Choices = Mapping[str, StoreChoice]


def alert_table(alerts: Iterable[ListedAlert], stores: Choices) -> str:
    """A table of alerts; on a phone each alert is a card, like a store of the overview."""
    head = "".join(f"<th scope='col' role='columnheader'>{name}</th>" for name in _COLUMNS)
    rows = "".join(_row(alert, stores.get(alert.store_id)) for alert in alerts)
    return (
        "<table class='t-table t-stores t-alerts' role='table'><thead role='rowgroup'>"
        f"<tr role='row'>{head}</tr></thead><tbody role='rowgroup'>{rows}</tbody></table>"
    )


def _row(alert: ListedAlert, choice: StoreChoice | None) -> str:
    zone, currency = _clock(choice)
    number = escape(value_text(alert, currency))
    attributes = f"data-alert='{escape(alert.alert_id)}' data-open='{str(alert.open).lower()}'"
    return (
        f"<tr role='row' {attributes}>"
        f"<th scope='row' role='rowheader'><a href='{escape(alert_address(alert.alert_id))}'>"
        f"{escape(title_text(alert))}</a>{_subject(alert)}</th>"
        f"{_cell('Store', _store_link(alert, choice))}"
        f"{_cell('Raised', escape(raise_time_text(alert, zone)))}"
        f"{_cell('Number', number)}{_cell('Severity', severity_chip(alert))}"
        f"{_cell('State', state_chip(alert.state) + _notes(alert))}</tr>"
    )


def choice_text(alert: Alert, choice: StoreChoice | None) -> str:
    """One line that identifies an alert in a list: title, subject, store and time of raising."""
    store = choice.label if choice else alert.store_id
    raised = raise_time_text(alert, _clock(choice)[0])
    parts = (title_text(alert), _subject_text(alert), store, raised)
    # An alert about a whole store has no subject.
    return " · ".join(part for part in parts if part)


def severity_chip(alert: Alert) -> str:
    """The alert's severity as markup."""
    kind, sign = SEVERITIES.get(alert.severity, ("", ""))
    return f"<span class='t-chip t-{kind}'>{sign} {escape(alert.severity)}</span>"


def life_facts(life: AlertLife, choice: StoreChoice | None) -> str:
    """The alert's facts as a list of names and values: subject, times, rule and current state."""
    alert, (zone, currency) = life.last, _clock(choice)
    address = f"/v1/alerts/{alert.alert_id}"
    started = instant_text(parse_instant(life.episode.start, "start"), zone)
    ended = _end_text(life, zone)
    facts = {
        "Store": _store_link(alert, choice),
        "What of it": escape(_subject_text(alert) or "all of it"),
        "Number": escape(f"{alert.metric}: {value_text(alert, currency)}"),
        "Window": escape(window_text(alert, zone)),
        "Episode": escape(f"from {started}; {ended}"),
        "Rule": escape(f"{alert.rule_id}, version {alert.rule_version}"),
        **({"Overdue": "no generation has settled it yet"} if alert.overdue else {}),
        **_reason_fact(alert),
        **_alert_link_fact("Of", alert.of),
        **_alert_link_fact("Tells again", alert.supersedes),
        "The same by HTTP": f"<a href='{escape(address)}'><code>{escape(address)}</code></a>",
    }
    # The values have been escaped above.
    rows = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in facts.items())
    return f"<dl class='t-facts'>{rows}</dl>"


def life_table(messages: Iterable[Alert], choice: StoreChoice | None) -> str:
    """A table of the alert's messages, each with the data that it was judged by."""
    zone, currency = _clock(choice)
    rows = "".join(_message(message, zone, currency) for message in messages)
    names = ("State", "Number", *_EVIDENCE_COLUMNS, "Tick")
    head = "".join(f"<th scope='col'>{name}</th>" for name in names)
    return (
        f"<table class='t-table t-life'><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )


def _message(message: Alert, zone: ZoneInfo, currency: str) -> str:
    reads: Sequence[ReadRows | None] = message.evidence.read or (None,)
    first = (
        f"<td>{'End: ' if message.edge == 'clear' else ''}{state_chip(message.state)}</td>"
        f"<td>{escape(value_text(message, currency))}</td>"
    )
    tick = f"<td class='t-num'>{message.evidence.tick}</td>"
    # A message that read several families has one row for each.
    return "".join(
        f"<tr>{'<td></td><td></td>' if number else first}{_read_cells(read)}{tick}</tr>"
        for number, read in enumerate(reads)
    )


def _read_cells(read: ReadRows | None) -> str:
    if read is None:
        return "<td></td>" * len(_EVIDENCE_COLUMNS)
    generation = NOTHING if read.generation is None else read.generation
    columns = (read.family, read.day, generation, read.epoch, f"{read.events:,}", read.source)
    return "".join(f"<td>{escape(str(column))}</td>" for column in columns)


def _clock(choice: StoreChoice | None) -> tuple[ZoneInfo, str]:
    """The time zone and the currency of a store; UTC and none for an unknown store."""
    if choice is None:
        return ZoneInfo("UTC"), ""
    return choice.store.zone, choice.store.currency


def _store_link(alert: Alert, choice: StoreChoice | None) -> str:
    """A link to the store's page for the days up to the alert, even if that is long ago."""
    # The days are taken from the alert's window, so an old alert links to its own days.
    start = parse_instant(alert.window.start, "window").astimezone(_clock(choice)[0])
    address = store_address(alert.store_id, Period(start.date(), _STORE_DAYS))
    label = choice.label if choice else alert.store_id
    return f"<a href='{escape(address)}'>{escape(label)}</a>"


def _cell(title: str, content: str) -> str:
    return f"<td role='cell' data-label='{title}'><span>{content}</span></td>"


def _subject(alert: Alert) -> str:
    text = _subject_text(alert)
    return f"<span class='t-change'>{escape(text)}</span>" if text else ""


def _subject_text(alert: Alert) -> str:
    return "" if alert.subject == "none" else alert.subject


def _notes(alert: ListedAlert) -> str:
    notes = [
        *(["overdue"] if alert.overdue else []),
        *(["late"] if alert.late else []),
        *(["published again"] if alert.occurrence > 1 else []),
        *(["backfilled"] if alert.backfilled else []),
        *([REASONS[alert.reason]] if alert.reason else []),
    ]
    return f"<span class='t-change'>{escape(', '.join(notes))}</span>" if notes else ""


def _end_text(life: AlertLife, zone: ZoneInfo) -> str:
    if life.episode.ended:
        return f"ended {instant_text(parse_instant(life.episode.ended, 'ended'), zone)}"
    return "it is open" if life.last.open else "taken back"


def _alert_link_fact(name: str, alert_id: str | None) -> dict[str, str]:
    if alert_id is None:
        return {}
    return {name: f"<a href='{escape(alert_address(alert_id))}'>{escape(alert_id[:12])}…</a>"}


def _reason_fact(alert: Alert) -> dict[str, str]:
    if alert.reason is None:
        return {}
    is_over = "Taken back" if alert.state == "retracted" else "Ended"
    return {f"{is_over} because": REASONS[alert.reason]}
