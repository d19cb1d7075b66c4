"""The addresses of the dashboard's pages, and of the same numbers in the HTTP API."""

from datetime import timedelta
from urllib.parse import quote, urlencode

from web.dashboard.shared.period import Period


def store_address(store_id: str, period: Period) -> str:
    """The address of a store's page."""
    return f"/?{urlencode({'store': store_id, **_period_query(period)})}"


def report_address(report_id: str, store_id: str, period: Period) -> str:
    """The address of a store's page for one report."""
    query = urlencode({"store": store_id, **_period_query(period)})
    return f"/report/{quote(report_id, safe='')}?{query}"


def overview_address(period: Period, number: int = 1) -> str:
    """The address of the overview of all stores, at this page number."""
    # The first page has no number, so that it has the address that people type.
    page_query = {"page": number} if number > 1 else {}
    return f"/stores?{urlencode({**_period_query(period), **page_query})}"


def inbox_address(period: Period, store_id: str = "") -> str:
    """The address of the alert inbox, of all stores or of one."""
    store_query = {"store": store_id} if store_id else {}
    return f"/alerts?{urlencode({**store_query, **_period_query(period)})}"


def alert_address(alert_id: str) -> str:
    """The address of one alert's page."""
    return f"/alerts/{quote(alert_id, safe='')}"


def rules_address() -> str:
    """The address of the page that lists the rules."""
    return "/rules"


def rule_address(rule_id: str, period: Period | None = None, store_id: str = "") -> str:
    """The address of one rule's page, for a store and a period if they are given."""
    store_query = {"store": store_id} if store_id else {}
    query = urlencode({**store_query, **(_period_query(period) if period else {})})
    return f"/rules/{quote(rule_id, safe='')}{'?' if query else ''}{query}"


def rule_edit_address(rule_id: str, period: Period, store_id: str) -> str:
    """The address of one rule's editor, which also simulates the rule in a store."""
    query = urlencode({"store": store_id, **_period_query(period)})
    return f"/rules/{quote(rule_id, safe='')}/edit?{query}"


def refusals_address(store_id: str = "") -> str:
    """The address of the page of refused events, of all stores or of one."""
    return f"/refused?{urlencode({'store': store_id})}" if store_id else "/refused"


def new_rule_address() -> str:
    """The address of the editor for a new rule."""
    # This path is not below /rules, because any name there may be the id of a rule.
    return "/new-rule"


def answer_address(report_id: str, store_id: str, period: Period) -> str:
    """The API address of a report for the same days, in the store's time zone."""
    # A page's period includes its last day; an API query ends before its `to` day.
    end = period.last + timedelta(days=1)
    query = {"store": store_id, "from": period.first.isoformat(), "to": end.isoformat()}
    return f"/v1/reports/{quote(report_id, safe='')}?{urlencode(query)}"


def _period_query(period: Period) -> dict[str, str | int]:
    return {"days": period.length, "until": period.last.isoformat()}
