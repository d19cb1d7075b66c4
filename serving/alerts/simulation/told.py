"""What was told of a rule at some stores, as the tables have it."""

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
# Days that are asked for at once: of most of them the answer is empty.
_AT_ONCE = 16


async def told_alerts(
    views: ViewReader, rule_id: str, store_ids: Sequence[str], days: tuple[date, date]
) -> dict[str, list[ToldAlert]]:
    """By store the last state of each alert of the rule that was raised on the UTC days.

    Both days are inclusive. Raises ViewsUnreachable.
    """
    found: dict[str, list[ToldAlert]] = defaultdict(list)
    first, last = days
    every = [first + more * _ONE_DAY for more in range((last - first).days + 1)]
    for begin in range(0, len(every), _AT_ONCE):
        asked = (views.alerts.raised(store_ids, day) for day in every[begin : begin + _AT_ONCE])
        for alerts in await asyncio.gather(*asked):
            for one in alerts:
                # The tables are by store and day: of every rule.
                if one.rule_id == rule_id:
                    found[one.store_id].append(_told(one))
    return found


def told_by_subject(told: Iterable[ToldAlert]) -> dict[str, list[ToldAlert]]:
    """The alerts of a rule and a store by subject; of one that is not there none."""
    found: dict[str, list[ToldAlert]] = defaultdict(list)
    for one in told:
        found[one.chain.subject].append(one)
    return found


def _told(alert: Alert) -> ToldAlert:
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
