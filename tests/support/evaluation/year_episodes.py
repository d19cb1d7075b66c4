"""Episodes of a moved year by two rules, as somebody tells them who knows all that is sent."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain, count, groupby
from typing import Any, NamedTuple

import msgspec

from tests.support.alerts.alert_year import ARTICLES, BUSY_RECEIPTS, FEW, AlertYear, most_sold

_WINDOW, _DAY_WINDOWS = 900, 96
_THERE_AGAIN = 3
# When, whether it is no count (that comes first of an instant), and how much.
_Move = tuple[float, bool, int]


class ToldEpisode(NamedTuple):
    """Windows by their starts, in UTC; `ended`: the first that is no more of it, None: none is."""

    store_id: str
    subject: str
    start: datetime
    ended: datetime | None


def busy(year: AlertYear) -> list[ToldEpisode]:
    """The episodes of the rule `busy` in the end, as somebody tells them who knows receipts."""
    counts = Counter[tuple[str, int]]()
    for one in year.receipts():
        place = one.store_id, int(one.happened_at) // _WINDOW
        # A receipt on which nothing was sold is heard of, and is no transaction.
        counts[place] += _is_sold(msgspec.json.decode(one.message))
    raised = {place for place, many in counts.items() if many >= BUSY_RECEIPTS}
    going = raised | {place for place in _first_days(counts) if place not in counts}
    found, until = [], dict.fromkeys(year.stores, 0)
    for store, window in sorted(raised):
        if window < until[store]:
            continue
        until[store] = next(one for one in count(window) if (store, one) not in going)
        found.append(ToldEpisode(store, "none", _start(window), _start(until[store])))
    return found


def _is_sold(told: dict[str, Any]) -> bool:
    """Whether a line has an amount, or money."""
    return any(line["amount"] or float(line["price"]) for line in told["transactions"])


def sold_out(year: AlertYear) -> list[ToldEpisode]:
    """The same of the rule `sold-out`, of who knows documents too."""
    moves: dict[tuple[str, str], list[_Move]] = defaultdict(list)
    for one in chain(year.documents(), year.receipts()):
        if one.store_id in year.stores[:FEW]:
            for article, is_count, brought in _brought(msgspec.json.decode(one.message)):
                moves[one.store_id, article].append((one.happened_at, not is_count, brought))
    articles = most_sold(year.stores, ARTICLES)
    found = []
    for (store, article), some in moves.items():
        for begun, ended in _run_out(sorted(some)) if article in articles else ():
            until = None if ended is None else _start(ended)
            found.append(ToldEpisode(store, f"item:{article}", _start(begun), until))
    return found


def _brought(told: dict[str, Any]) -> Iterator[tuple[str, bool, int]]:
    """Of a document or a receipt the articles, whether they are counted, and what comes to them."""
    for line in told.get("transactions", ()):
        yield str(line["item_id"]), False, -line["amount"]
    if "kind" in told:
        yield told["item_id"], told["kind"] == "count", told["amount"]


def _run_out(moves: Iterable[_Move]) -> Iterator[tuple[int, int | None]]:
    """The windows in which an article has run out, and in which it is there again.

    It is not where it was out within the window: then it is in the next one.
    """
    level, begun, last = None, None, 0
    for window, some in groupby(moves, key=lambda one: int(one[0]) // _WINDOW):
        if begun is not None and _is_there(level) and last + 1 < window:
            yield begun, last + 1
            begun = None
        levels, last = _levels(level, some), window
        if not levels:
            continue
        level = levels[-1]
        if min(levels) <= 0:
            begun = window if begun is None else begun
        elif begun is not None and _is_there(level):
            yield begun, window
            begun = None
    if begun is not None:
        yield begun, last + 1 if _is_there(level) else None


def _levels(before: int | None, moves: Iterable[_Move]) -> list[int]:
    """What there was in a window, one after the other; what a count overrules is not evaluated."""
    levels = [] if before is None else [before]
    for _, is_move, brought in moves:
        if not is_move:
            levels = [brought]
        elif levels:
            levels.append(levels[-1] + brought)
    return levels


def _is_there(level: int | None) -> bool:
    return level is not None and level >= _THERE_AGAIN


def _first_days(places: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """All quarter hours of each store's first day: on it those without receipts say nothing."""
    first: dict[str, int] = {}
    for store, window in places:
        first[store] = min(first.get(store, window), window)
    for store, window in first.items():
        begin = window - window % _DAY_WINDOWS
        yield from ((store, one) for one in range(begin, begin + _DAY_WINDOWS))


def _start(window: int) -> datetime:
    return datetime.fromtimestamp(window * _WINDOW, UTC)
