"""Reads the alerts that were sent for a rule at some stores from the tables."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date, timedelta

from alerting.alert.ids import Chain
from alerting.alert.published import PublishedAlert
from serving.storage.views import ViewReader
from tally.alerts.message import Alert
from tally.time.instants import parse_instant, to_millis

_ONE_DAY = timedelta(days=1)
# The number of days read concurrently: most of them have no alerts.
_CONCURRENT_READS = 16


async def load_published_alerts(
    views: ViewReader, rule_id: str, store_ids: Sequence[str], days: tuple[date, date]
) -> dict[str, list[PublishedAlert]]:
    """The last state of each alert of the rule raised on the UTC days, by store.

    Both days are inclusive. Raises ViewsUnreachable.
    """
    found: dict[str, list[PublishedAlert]] = defaultdict(list)
    first, last = days
    all_days = [first + number * _ONE_DAY for number in range((last - first).days + 1)]
    for begin in range(0, len(all_days), _CONCURRENT_READS):
        reads = (
            views.alerts.read_raised(store_ids, day)
            for day in all_days[begin : begin + _CONCURRENT_READS]
        )
        for alerts in await asyncio.gather(*reads):
            for alert in alerts:
                # The tables are keyed by store and day, so they return the alerts of all rules.
                if alert.rule_id == rule_id:
                    found[alert.store_id].append(_to_published(alert))
    return found


def group_by_subject(published: Iterable[PublishedAlert]) -> dict[str, list[PublishedAlert]]:
    """The alerts of a rule and a store by subject; an absent subject gives an empty list."""
    found: dict[str, list[PublishedAlert]] = defaultdict(list)
    for alert in published:
        found[alert.chain.subject].append(alert)
    return found


def _to_published(alert: Alert) -> PublishedAlert:
    ended = alert.episode.ended
    return PublishedAlert(
        alert_id=alert.alert_id,
        chain=Chain(alert.rule_id, alert.store_id, alert.subject),
        version=alert.rule_version,
        edge=alert.edge,
        window=_millis(alert.window.start),
        state=alert.state,
        raised_at=_millis(alert.raised_at),
        start=_millis(alert.episode.start),
        ended=None if ended is None else _millis(ended),
        occurrence=alert.occurrence,
        of=alert.of,
        supersedes=alert.supersedes,
        late=alert.late,
    )


def _millis(text: str) -> int:
    return to_millis(parse_instant(text, "alert"))
