"""What a rule calls for on some windows, and how that differs from what was told of them.

Both are of one chain. What was told of windows that are not settled hangs on when records came: of
those nothing is compared.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import Literal

from msgspec import Struct

from tally.alerts.fold import Episode, Judgement
from tally.alerts.match import match
from tally.alerts.message import Edge
from tally.alerts.told import ToldAlert

# not_told: it is called for, and no alert stands. not_confirmed: one stands, still provisional.
# not_called_for: one stands, and nothing calls for it.
DifferenceKind = Literal["not_told", "not_confirmed", "not_called_for"]


class FoldedSpan(Struct, frozen=True):
    """The windows of a chain that were asked for, [start, end) in milliseconds since 1970 (UTC).

    `episodes`: those of these windows and of the days around them. `settled`: starts of the windows
    that are served complete, as all before them in the same day are. `is_cut`: whether windows have
    begun behind those days, in which an episode that is open here may have ended.
    """

    start: int
    end: int
    episodes: tuple[Episode, ...]
    settled: frozenset[int]
    is_cut: bool = False

    @property
    def asked(self) -> tuple[Episode, ...]:
        """The episodes that are open in a window of the span, and were raised by its end."""
        return tuple(
            one
            for one in self.episodes
            if one.raised < self.end and (one.ended is None or one.ended > self.start)
        )


class ToldDifference(Struct, frozen=True, kw_only=True):
    """One alert that was told otherwise; windows by their starts, milliseconds since 1970 (UTC).

    `window`: of what is called for, else of what was told. `alert_id`: None where none stands.
    """

    kind: DifferenceKind
    edge: Edge
    window: int
    alert_id: str | None = None


class ToldComparison(Struct, frozen=True):
    """How many raises and ends were compared, each one once, and every difference.

    `left_out`: what was told or is called for in the span, and is of windows that are not settled.
    """

    compared: int
    left_out: int
    differences: tuple[ToldDifference, ...]


def rests_for_sure(judgements: Iterable[Judgement]) -> bool:
    """Whether a fold over the windows is at rest behind one of them, whatever came before them."""
    return rests_behind(judgements) is not None


def rests_behind(judgements: Iterable[Judgement]) -> int | None:
    """Start of the first window (ms since 1970, UTC) behind which a fold over them is at rest,
    whatever came before them; None where there is none.

    So it is behind `clear_for` windows in a row that clear: an episode ends there at the latest,
    and a run of windows that raise is broken.
    """
    run = 0
    # Windows that raise show less: where an open episode began is before them.
    for one in judgements:
        run = run + 1 if one.verdict == -1 else 0
        if run and run >= one.clear_for:
            return one.window
    return None


def compared(span: FoldedSpan, told: Iterable[ToldAlert]) -> ToldComparison:
    """The confirmed alerts of the span against those that are called for: one to one.

    In:  `told`: every alert of the chain whose window may lie in one of the episodes.
    Out: an alert is the episode that contains its window, as the evaluator matches them.
    """
    # Whatever was taken back is as if it had not been told.
    standing = [one for one in told if one.is_standing]
    found = [*_looks(span, standing)]
    differences = tuple(one for one in found if isinstance(one, ToldDifference))
    left_out = sum(one == "left out" for one in found)
    return ToldComparison(len(found) - left_out, left_out, differences)


# Of one raise or end: how it differs, that it does not, or that it says nothing.
_SpanFinding = ToldDifference | Literal["equal", "left out"]


def _looks(span: FoldedSpan, standing: Sequence[ToldAlert]) -> Iterator[_SpanFinding]:
    ends = _by_raise(standing)
    raises = [one for one in standing if one.edge == "raise"]
    matching = match(raises, span.episodes)
    for episode, raised in matching.pairs:
        if _is_in(span, episode.raised):
            yield _wanted(span, "raise", episode, raised)
        own = [] if raised is None else ends.pop(raised.alert_id, [])
        if episode.ended is not None:
            # One at a time: a second end of a raise is one too many.
            end, own = (own[0], own[1:]) if own else (None, [])
            if _is_in(span, episode.ended):
                yield _wanted(span, "clear", episode, end)
        # What was told of a window behind the span is not of it.
        for one in own:
            if _is_in(span, _place(one)):
                goes_on = span.is_cut and episode.ended is None
                yield "left out" if goes_on else _unwanted(span, one, _place(one))
    for one in (*matching.merged, *matching.unwanted):
        # Its end stands and falls with it: no window of the end's own decides about that.
        for alert in (one, *ends.pop(one.alert_id, [])):
            if _is_in(span, _place(alert)):
                yield _unwanted(span, alert, one.window)
    for orphan in chain.from_iterable(ends.values()):
        if _is_in(span, _place(orphan)):
            yield _unwanted(span, orphan, _place(orphan))


def _by_raise(standing: Iterable[ToldAlert]) -> dict[str | None, list[ToldAlert]]:
    """The ends of each raise, the earliest first."""
    found: dict[str | None, list[ToldAlert]] = defaultdict(list)
    for one in sorted(standing, key=attrgetter("window", "occurrence", "alert_id")):
        if one.edge == "clear":
            found[one.of].append(one)
    return found


def _place(alert: ToldAlert) -> int:
    """The window as which it is counted, in whichever span that is.

    Of an end it is the one that it was confirmed as: its own may lie many days behind that, from
    when those days had not been rebuilt.
    """
    is_known_end = alert.edge == "clear" and alert.state == "confirmed"
    return alert.ended if is_known_end and alert.ended is not None else alert.window


def _is_in(span: FoldedSpan, window: int) -> bool:
    return span.start <= window < span.end


def _wanted(
    span: FoldedSpan, edge: Edge, episode: Episode, alert: ToldAlert | None
) -> _SpanFinding:
    window = episode.raised if edge == "raise" or episode.ended is None else episode.ended
    if window not in span.settled:
        return "left out"
    if alert is None:
        return ToldDifference(kind="not_told", edge=edge, window=window)
    # Its own window too: only where both are settled a provisional alert has to be confirmed.
    is_here = alert.window in span.settled
    if alert.state == "confirmed" and (is_here or _was_told_of(alert, episode)):
        return "equal"
    if not is_here:
        return "left out"
    return ToldDifference(kind="not_confirmed", edge=edge, window=window, alert_id=alert.alert_id)


def _was_told_of(alert: ToldAlert, episode: Episode) -> bool:
    """Whether its last message names the episode: where its own window lies makes no difference."""
    # One that is open at the end of the days may have ended behind them, and a later one begun.
    is_same_end = alert.edge == "raise" or alert.ended == episode.ended
    return alert.start == episode.start and is_same_end


def _unwanted(span: FoldedSpan, alert: ToldAlert, decides: int) -> _SpanFinding:
    if decides not in span.settled:
        return "left out"
    return ToldDifference(
        kind="not_called_for", edge=alert.edge, window=alert.window, alert_id=alert.alert_id
    )
