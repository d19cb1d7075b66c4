"""The addresses of the pages, and of the same numbers by HTTP."""

from datetime import timedelta
from urllib.parse import quote, urlencode

from serving.dashboard.period import Period


def store_address(store_id: str, period: Period) -> str:
    """The page of a store."""
    return f"/?{urlencode({'store': store_id, **_asked(period)})}"


def report_address(report_id: str, store_id: str, period: Period) -> str:
    """The page of a report of a store."""
    asked = urlencode({"store": store_id, **_asked(period)})
    return f"/report/{quote(report_id, safe='')}?{asked}"


def overview_address(period: Period, number: int = 1) -> str:
    """The page of all stores, those of the page of this number."""
    # The first page has the address that people type.
    more = {"page": number} if number > 1 else {}
    return f"/stores?{urlencode({**_asked(period), **more})}"


def inbox_address(period: Period, store_id: str = "") -> str:
    """The page of the alerts, of all stores or of one."""
    named = {"store": store_id} if store_id else {}
    return f"/alerts?{urlencode({**named, **_asked(period)})}"


def alert_address(alert_id: str) -> str:
    """The page of one alert."""
    return f"/alerts/{quote(alert_id, safe='')}"


def rules_address() -> str:
    """The page of the rules in force."""
    return "/rules"


def rule_address(rule_id: str, period: Period | None = None, store_id: str = "") -> str:
    """The page of one rule, of a store and days if they are named."""
    named = {"store": store_id} if store_id else {}
    asked = urlencode({**named, **(_asked(period) if period else {})})
    return f"/rules/{quote(rule_id, safe='')}{'?' if asked else ''}{asked}"


def rule_edit_address(rule_id: str, period: Period, store_id: str) -> str:
    """The editor of one rule, with what it would have told in a store."""
    asked = urlencode({"store": store_id, **_asked(period)})
    return f"/rules/{quote(rule_id, safe='')}/edit?{asked}"


def refused_address(store_id: str = "") -> str:
    """The page of what does not count, of all stores or of one."""
    return f"/refused?{urlencode({'store': store_id})}" if store_id else "/refused"


def new_rule_address() -> str:
    """The editor of a rule that is not there yet."""
    # Not below /rules: any name there may be that of a rule.
    return "/new-rule"


def answer_address(report_id: str, store_id: str, period: Period) -> str:
    """The report as the API answers it, of the same days in the store's zone."""
    # A page names its last day, a question the first one after it.
    end = period.last + timedelta(days=1)
    asked = {"store": store_id, "from": period.first.isoformat(), "to": end.isoformat()}
    return f"/v1/reports/{quote(report_id, safe='')}?{urlencode(asked)}"


def _asked(period: Period) -> dict[str, str | int]:
    return {"days": period.length, "until": period.last.isoformat()}
