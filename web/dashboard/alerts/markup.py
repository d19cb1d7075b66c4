"""Markup for the inbox's rows and one alert's life."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from zoneinfo import ZoneInfo

from markupsafe import Markup

from alerting.queries.alerts import AlertLife, ListedAlert, raise_instant
from tally.alerts.message import Alert, AlertState, ReadRows, Reason
from tally.time.instants import parse_instant
from web.dashboard.shared.addresses import Period, alert_address, store_address
from web.dashboard.shared.labels import NOTHING, instant_text, number_text
from web.dashboard.shared.markup import (
    Content,
    api_link,
    card_row,
    card_table,
    chip,
    element,
    facts,
    join,
    link,
    second_line,
    span,
    subtitle,
    table,
)
from web.dashboard.shared.source import StoreChoice

# For each state: CSS class suffix, sign, word.
STATES: Mapping[AlertState, tuple[str, str, str]] = {
    "provisional": ("provisional", "◐", "Provisional"),
    "confirmed": ("complete", "✓", "Confirmed"),
    "retracted": ("withheld", "⊘", "Taken back"),
}
SEVERITIES = {
    "critical": ("withheld", "▲"),
    "warning": ("partial", "△"),
    "info": ("", "○"),
}
REASONS: Mapping[Reason, str] = {
    "late_data": "what came later changed the number",
    "conflict": "a record that had counted was a conflict",
    "erasure": "what it stood on was erased",
    "definition": "the number is computed in another way now",
    "merged": "it was one episode with another alert",
    "rule": "its rule is retired, or not about this store any more",
    "closed": "the store is closed for good",
    "delisted": "the article is not sold any more",
    "resolved": "a person has resolved it",
}


def state_chip(state: AlertState) -> Markup:
    """The alert's state as a chip."""
    kind, sign, word = STATES[state]
    return chip(sign, word, kind, data_state=state)


def severity_chip(severity: str) -> Markup:
    """A severity as a chip."""
    kind, sign = SEVERITIES.get(severity, ("", ""))
    return chip(sign, severity, kind)


def raise_time_text(alert: Alert, zone: ZoneInfo) -> str:
    """The day and the time at which the alert was raised, in a time zone."""
    return instant_text(raise_instant(alert), zone)


def window_text(alert: Alert, zone: ZoneInfo) -> str:
    """The window for which the alert was first sent, in a time zone."""
    bounds = (alert.window.start, alert.window.end)
    start, end = (parse_instant(bound, "window").astimezone(zone) for bound in bounds)
    return f"{start:%-d %b %Y %H:%M} to {end:%H:%M}"


def value_text(alert: Alert, currency: str) -> str:
    """The alert's number, and its limit and usual value; `currency` is that of money."""
    if alert.value is None:
        return NOTHING
    text = number_text(alert.metric, alert.value, currency)
    baseline = alert.baseline.value if alert.baseline else None
    for word, number in (("limit", alert.threshold), ("usual", baseline)):
        if number is not None:
            text += f" · {word} {number_text(alert.metric, number, currency)}"
    return text


def title_text(alert: Alert) -> str:
    """The alert's title: its rule's id, and for a clear message that it has ended."""
    ended = " has ended" if alert.edge == "clear" else ""
    return f"{alert.rule_id}{ended}"


_COLUMNS = ("Alert", "Store", "Raised", "Number", "Severity", "State")
_EVIDENCE_COLUMNS = ("Family", "UTC day", "Generation", "Epoch", "Events", "Source")
# The legend of the alert marks above a chart.
MARK_KEY = subtitle(
    "On the charts above: ▲ begins, ▼ ends; filled is confirmed, hollow provisional, a grey struck"
    " ring taken back; the colour is the severity."
)
Choices = Mapping[str, StoreChoice]


def alert_table(alerts: Iterable[ListedAlert], stores: Choices) -> Markup:
    """A table of alerts; on a phone each alert is a card, like a store of the overview."""
    return card_table(_COLUMNS, (_row(alert, stores.get(alert.store_id)) for alert in alerts))


def _row(alert: ListedAlert, choice: StoreChoice | None) -> Markup:
    zone, currency = _clock(choice)
    title = link(alert_address(alert.alert_id), title_text(alert))
    name = title + second_line(_subject_text(alert))
    cells = (
        _store_link(alert, choice),
        raise_time_text(alert, zone),
        value_text(alert, currency),
        severity_chip(alert.severity),
        state_chip(alert.state) + second_line(_notes(alert)),
    )
    shown = dict(zip(_COLUMNS[1:], map(span, cells), strict=True))
    is_open = str(alert.open).lower()
    return card_row(name, shown, data_alert=alert.alert_id, data_open=is_open)


def choice_text(alert: Alert, choice: StoreChoice | None) -> str:
    """One line that identifies an alert in a list: title, subject, store and time of raising."""
    store = choice.label if choice else alert.store_id
    raised = raise_time_text(alert, _clock(choice)[0])
    # An alert about a whole store has no subject.
    parts = (title_text(alert), _subject_text(alert), store, raised)
    return " · ".join(filter(None, parts))


def life_facts(life: AlertLife, choice: StoreChoice | None) -> Markup:
    """The alert's facts as a list of names and values: subject, times, rule and current state."""
    alert, (zone, currency) = life.last, _clock(choice)
    started = instant_text(parse_instant(life.episode.start, "start"), zone)
    is_over = "Taken back" if alert.state == "retracted" else "Ended"
    values: dict[str, Content | None] = {
        "Store": _store_link(alert, choice),
        "What of it": _subject_text(alert) or "all of it",
        "Number": f"{alert.metric}: {value_text(alert, currency)}",
        "Window": window_text(alert, zone),
        "Episode": f"from {started}; {_end_text(life, zone)}",
        "Rule": f"{alert.rule_id}, version {alert.rule_version}",
        "Overdue": "no generation has settled it yet" if alert.overdue else None,
        f"{is_over} because": REASONS[alert.reason] if alert.reason else None,
        "Of": _alert_link(alert.of),
        "Tells again": _alert_link(alert.supersedes),
        "The same by HTTP": api_link(f"/v1/alerts/{alert.alert_id}"),
    }
    return facts({name: value for name, value in values.items() if value is not None})


def life_table(messages: Iterable[Alert], choice: StoreChoice | None) -> Markup:
    """A table of the alert's messages, each with the data that it was evaluated by."""
    zone, currency = _clock(choice)
    rows = (line for message in messages for line in _message(message, zone, currency))
    return table(("State", "Number", *_EVIDENCE_COLUMNS, "Tick"), rows, "t-life")


def _message(message: Alert, zone: ZoneInfo, currency: str) -> Iterator[Markup]:
    reads: Sequence[ReadRows | None] = message.evidence.read or (None,)
    state = join(["End: " if message.edge == "clear" else "", state_chip(message.state)])
    first: tuple[Content, ...] = (state, value_text(message, currency))
    tick = element("td", message.evidence.tick, class_="t-num")
    # A message that read several families has one row for each.
    for number, read in enumerate(reads):
        cells = (*(("", "") if number else first), *_read_cells(read))
        yield element("tr", *(element("td", cell) for cell in cells), tick)


def _read_cells(read: ReadRows | None) -> Sequence[Content]:
    if read is None:
        return [""] * len(_EVIDENCE_COLUMNS)
    generation = NOTHING if read.generation is None else read.generation
    return (read.family, read.day, generation, read.epoch, f"{read.events:,}", read.source)


def _clock(choice: StoreChoice | None) -> tuple[ZoneInfo, str]:
    """The time zone and the currency of a store; UTC and none for an unknown store."""
    return (choice.store.zone, choice.store.currency) if choice else (ZoneInfo("UTC"), "")


def _store_link(alert: Alert, choice: StoreChoice | None) -> Markup:
    """A link to the store's page for the days up to the alert, even if that is long ago."""
    # The days are taken from the alert's window, so an old alert links to its own days.
    start = parse_instant(alert.window.start, "window").astimezone(_clock(choice)[0])
    address = store_address(alert.store_id, Period(start.date(), 7))
    return link(address, choice.label if choice else alert.store_id)


def _subject_text(alert: Alert) -> str:
    return "" if alert.subject == "none" else alert.subject


def _notes(alert: ListedAlert) -> str:
    notes = [
        "overdue" if alert.overdue else "",
        "late" if alert.late else "",
        "published again" if alert.occurrence > 1 else "",
        "backfilled" if alert.backfilled else "",
        REASONS[alert.reason] if alert.reason else "",
    ]
    return ", ".join(filter(None, notes))


def _end_text(life: AlertLife, zone: ZoneInfo) -> str:
    if life.episode.ended:
        return f"ended {instant_text(parse_instant(life.episode.ended, 'ended'), zone)}"
    return "it is open" if life.last.open else "taken back"


def _alert_link(alert_id: str | None) -> Markup | None:
    return None if alert_id is None else link(alert_address(alert_id), f"{alert_id[:12]}…")
