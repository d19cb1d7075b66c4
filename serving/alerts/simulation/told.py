"""Reads the alerts that were sent for a rule at some stores from the tables."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date, timedelta

from serving.alerts.evaluator.calendar import millis_of
from serving.merge.views import ViewReader
from tally.alerts.ids import Chain
from tally.alerts.message import Alert
from tally.alerts.told import ToldAlert
from tally.instants import parse_instant

_ONE_DAY = timedelta(days=1)
# The number of days read concurrently: most of them have no alerts.
_AT_ONCE = 16


async def told_alerts(
    views: ViewReader, rule_id: str, store_ids: Sequence[str], days: tuple[date, date]
) -> dict[str, list[ToldAlert]]:
    """The last state of each alert of the rule raised on the UTC days, by store.

    Both days are inclusive. Raises ViewsUnreachable.
    """
    found: dict[str, list[ToldAlert]] = defaultdict(list)
    first, last = days
    all_days = [first + number * _ONE_DAY for number in range((last - first).days + 1)]
    for begin in range(0, len(all_days), _AT_ONCE):
        reads = (views.alerts.raised(store_ids, day) for day in all_days[begin : begin + _AT_ONCE])
        for alerts in await asyncio.gather(*reads):
            for alert in alerts:
                # The tables are keyed by store and day, so they return the alerts of all rules.
                if alert.rule_id == rule_id:
                    found[alert.store_id].append(_sent_alert(alert))
    return found


def told_by_subject(told: Iterable[ToldAlert]) -> dict[str, list[ToldAlert]]:
    """The alerts of a rule and a store by subject; an absent subject gives an empty list."""
    found: dict[str, list[ToldAlert]] = defaultdict(list)
    for alert in told:
        found[alert.chain.subject].append(alert)
    return found


def _sent_alert(alert: Alert) -> ToldAlert:
    ended = alert.episode.ended
    return ToldAlert(
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
    return millis_of(parse_instant(text, "alert"))
