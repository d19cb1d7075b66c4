"""Alerts in words and signs, so that nothing depends on colour alone."""

from collections.abc import Mapping
from datetime import datetime
from zoneinfo import ZoneInfo

from markupsafe import Markup

from alerting.queries.alerts import raise_instant
from serving.metrics import catalogue
from tally.alerts.message import Alert, AlertState, Reason
from tally.errors import UnknownName
from tally.time.instants import parse_instant
from web.dashboard.shared.labels import NOTHING, UnitStyle
from web.dashboard.shared.markup import chip

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


def instant_text(instant: datetime, zone: ZoneInfo) -> str:
    """The day and the time of an instant in a time zone.

    >>> instant_text(datetime.fromisoformat("2026-11-23T09:02:05Z"), ZoneInfo("Europe/Rome"))
    '23 Nov 2026 10:02'
    """
    return f"{instant.astimezone(zone):%-d %b %Y %H:%M}"


def raise_time_text(alert: Alert, zone: ZoneInfo) -> str:
    """The day and the time at which the alert was raised, in a time zone."""
    return instant_text(raise_instant(alert), zone)


def window_text(alert: Alert, zone: ZoneInfo) -> str:
    """The window for which the alert was first sent, in a time zone."""
    bounds = (alert.window.start, alert.window.end)
    start, end = (parse_instant(bound, "window").astimezone(zone) for bound in bounds)
    return f"{start:%-d %b %Y %H:%M} to {end:%H:%M}"


def value_text(alert: Alert, currency: str) -> str:
    """The alert's number, and the limit and usual value that it was compared with.

    `currency` is used for metrics of money.
    """
    baseline = alert.baseline.value if alert.baseline else None
    compared = [
        f"{word} {number_text(alert.metric, number, currency)}"
        for word, number in (("limit", alert.threshold), ("usual", baseline))
        if number is not None
    ]
    if alert.value is None:
        return NOTHING
    return " · ".join([number_text(alert.metric, alert.value, currency), *compared])


def number_text(metric_id: str, number: float, currency: str) -> str:
    """A metric's number with its unit, or without one if the metric no longer exists."""
    whole = int(number) if float(number).is_integer() else number
    try:
        style = UnitStyle(catalogue.metric(metric_id).entry.unit, currency)
    except UnknownName:
        return f"{whole:,}"
    return f"{style.text(whole)} {style.word}".rstrip()


def title_text(alert: Alert) -> str:
    """The alert's title: its rule's id, and for a clear message that it has ended."""
    ended = " has ended" if alert.edge == "clear" else ""
    return f"{alert.rule_id}{ended}"
