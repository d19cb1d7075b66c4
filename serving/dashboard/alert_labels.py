"""Alerts in words and signs, none of which hangs on a colour."""

from collections.abc import Mapping
from datetime import datetime
from zoneinfo import ZoneInfo

from serving.alerts.inquiry import raised_at
from serving.dashboard.labels import NOTHING
from serving.dashboard.unit_style import UnitStyle
from serving.query import catalogue
from tally.alerts.message import Alert, AlertState, Reason
from tally.errors import UnknownName
from tally.instants import parse_instant

# Class of the style, sign, word.
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
    "resolved": "somebody has resolved it",
}


def state_chip(state: AlertState) -> str:
    """The state as markup."""
    kind, sign, word = STATES[state]
    return f"<span class='t-chip t-{kind}' data-state='{state}'>{sign} {word}</span>"


def instant_text(instant: datetime, zone: ZoneInfo) -> str:
    """Day and time by the clock of a zone.

    >>> instant_text(datetime.fromisoformat("2026-11-23T09:02:05Z"), ZoneInfo("Europe/Rome"))
    '23 Nov 2026 10:02'
    """
    return f"{instant.astimezone(zone):%-d %b %Y %H:%M}"


def raised_text(alert: Alert, zone: ZoneInfo) -> str:
    """When it was raised."""
    return instant_text(raised_at(alert), zone)


def window_text(alert: Alert, zone: ZoneInfo) -> str:
    """The window of which it was first told."""
    both = (alert.window.start, alert.window.end)
    start, end = (parse_instant(one, "window").astimezone(zone) for one in both)
    return f"{start:%-d %b %Y %H:%M} to {end:%H:%M}"


def value_text(alert: Alert, currency: str) -> str:
    """The number, and what it was compared with.

    `currency` is that of money.
    """
    usual = alert.baseline.value if alert.baseline else None
    compared = [
        f"{word} {number_text(alert.metric, number, currency)}"
        for word, number in (("limit", alert.threshold), ("usual", usual))
        if number is not None
    ]
    if alert.value is None:
        return NOTHING
    return " · ".join([number_text(alert.metric, alert.value, currency), *compared])


def number_text(metric_id: str, number: float, currency: str) -> str:
    """A number of a metric with its unit; of a metric that is no more without one."""
    whole = int(number) if float(number).is_integer() else number
    try:
        style = UnitStyle(catalogue.metric(metric_id).entry.unit, currency)
    except UnknownName:
        return f"{whole:,}"
    return f"{style.text(whole)} {style.word}".rstrip()


def title_text(alert: Alert) -> str:
    """What it is about: the rule, and what of the store if that is not all of it."""
    ended = " has ended" if alert.edge == "clear" else ""
    return f"{alert.rule_id}{ended}"
