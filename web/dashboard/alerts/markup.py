"""Markup for the inbox's rows and one alert's life."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from zoneinfo import ZoneInfo

from markupsafe import Markup

from alerting.queries.alerts import AlertLife, ListedAlert
from tally.alerts.message import Alert, ReadRows
from tally.time.instants import parse_instant
from web.dashboard.shared.addresses import Period, alert_address, store_address
from web.dashboard.shared.alert_labels import (
    REASONS,
    instant_text,
    raise_time_text,
    severity_chip,
    state_chip,
    title_text,
    value_text,
    window_text,
)
from web.dashboard.shared.labels import NOTHING
from web.dashboard.shared.markup import (
    Content,
    api_link,
    card_row,
    card_table,
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

_COLUMNS = ("Alert", "Store", "Raised", "Number", "Severity", "State")
_EVIDENCE_COLUMNS = ("Family", "UTC day", "Generation", "Epoch", "Events", "Source")
_STORE_DAYS = 7
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
    name = link(alert_address(alert.alert_id), title_text(alert)) + second_line(
        _subject_text(alert)
    )
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
    parts = (title_text(alert), _subject_text(alert), store, raised)
    # An alert about a whole store has no subject.
    return " · ".join(part for part in parts if part)


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
    if choice is None:
        return ZoneInfo("UTC"), ""
    return choice.store.zone, choice.store.currency


def _store_link(alert: Alert, choice: StoreChoice | None) -> Markup:
    """A link to the store's page for the days up to the alert, even if that is long ago."""
    # The days are taken from the alert's window, so an old alert links to its own days.
    start = parse_instant(alert.window.start, "window").astimezone(_clock(choice)[0])
    address = store_address(alert.store_id, Period(start.date(), _STORE_DAYS))
    return link(address, choice.label if choice else alert.store_id)


def _subject_text(alert: Alert) -> str:
    return "" if alert.subject == "none" else alert.subject


def _notes(alert: ListedAlert) -> str:
    notes = {
        "overdue": alert.overdue,
        "late": alert.late,
        "published again": alert.occurrence > 1,
        "backfilled": alert.backfilled,
    }
    reason = [REASONS[alert.reason]] if alert.reason else []
    true_notes = [note for note, is_true in notes.items() if is_true]
    return ", ".join([*true_notes, *reason])


def _end_text(life: AlertLife, zone: ZoneInfo) -> str:
    if life.episode.ended:
        return f"ended {instant_text(parse_instant(life.episode.ended, 'ended'), zone)}"
    return "it is open" if life.last.open else "taken back"


def _alert_link(alert_id: str | None) -> Markup | None:
    return None if alert_id is None else link(alert_address(alert_id), f"{alert_id[:12]}…")
