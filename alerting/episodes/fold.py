"""Folding of verdicts into episodes, from the first window that raised to the one that ended it.

Windows are folded in the order of their starts. Of a rule that is evaluated once in each hour or
day only the windows in which one ends are folded: in all others it has no verdict, which would
break its runs. So `for` and `clear_for` count hours or days there.
"""

from collections.abc import Collection, Iterable, Iterator

from msgspec import Struct, structs

from alerting.episodes.verdict import (
    CLEARS,
    ENDS,
    LEAVES,
    RAISES,
    RESOLVES,
    Verdict,
    encode_verdict,
)
from tally.time.windows import WINDOW_MILLIS


class VerdictRange(Struct, frozen=True):
    """Consecutive windows that one version evaluates.

    `start`: start of the first window, milliseconds since 1970 (UTC). `verdicts`: one byte for each
    window (alerting/episodes/verdict.py). `for_` and `clear_for`: the version's numbers of
    consecutive windows. `covered_count`: the number of windows, from the first one on, that are
    covered by a generation, and nothing newer was read instead; windows that no rebuild will ever
    cover count too. Where no version is in force, or a retired one, the verdicts are 0.
    """

    start: int
    verdicts: bytes
    version: int = 0
    for_: int = 1
    clear_for: int = 1
    covered_count: int = 0

    def window_start(self, place: int) -> int:
        """The start of a window by its number in the range, milliseconds since 1970 (UTC)."""
        return self.start + place * WINDOW_MILLIS


class WindowVerdict(Struct, frozen=True):
    """The verdict on one window by the rule's version in force: a range of one window.

    `window`: its start, milliseconds since 1970 (UTC). `is_covered`: it is covered by a
    generation, and nothing newer was read instead.
    """

    window: int
    verdict: Verdict
    version: int = 0
    for_: int = 1
    clear_for: int = 1
    is_covered: bool = False

    @property
    def verdict_range(self) -> VerdictRange:
        """The verdict as a range of one window."""
        verdicts, covered_count = encode_verdict(self.verdict), int(self.is_covered)
        runs = self.for_, self.clear_for
        return VerdictRange(self.window, verdicts, self.version, *runs, covered_count)


class Episode(Struct, frozen=True):
    """The windows of one alert, by their starts in milliseconds since 1970 (UTC).

    `start`: the first window of the run that raised; `raised`: the last window of that run, and
    `version` its version; `ended`: the window that cleared, which is no longer part of the episode,
    or None while the episode is open.
    """

    start: int
    raised: int
    version: int
    ended: int | None = None

    def contains(self, window: int) -> bool:
        """Whether the window with this start lies in the episode."""
        return self.start <= window and (self.ended is None or window < self.ended)


class FoldState(Struct, frozen=True):
    """The state of a fold between two windows.

    Before an episode: `run` windows in a row have raised, the first of them `since`. In an episode:
    `open` is the episode, and the last `clear_run` windows have cleared. `is_resolved`: a person
    ended the last episode, and no window has cleared since. Folds with equal states continue alike.
    """

    run: int = 0
    since: int | None = None
    open: Episode | None = None
    clear_run: int = 0
    is_resolved: bool = False

    @property
    def earliest_start(self) -> int | None:
        """The start of the open episode, or of the current run of raises; None without either."""
        return self.since if self.open is None else self.open.start


IDLE_STATE = FoldState()
_RESOLVED_STATE = FoldState(is_resolved=True)


class FoldResult(Struct, frozen=True):
    """The episodes that overlap a span, an open one last, and the state at its end."""

    episodes: tuple[Episode, ...]
    state: FoldState


def fold(
    verdicts: Iterable[WindowVerdict | VerdictRange], state: FoldState = IDLE_STATE
) -> FoldResult:
    """The episodes of consecutive windows, beginning from the state after earlier windows.

    In:  every window in order, also those without a verdict, because runs are of windows in a row.
    Out: whole episodes. An episode that was open at the beginning is included with its own start.

    Folding the days of a chain one after the other, each from the state of the previous day, has
    the same result as folding them all at once, regardless of how they are cut into ranges. An
    open episode continues across versions: the next version decides when it ends.
    """
    ended: list[Episode] = []
    # Earlier windows are never read again: the state has everything that matters of them.
    for verdict in verdicts:
        verdict_range = verdict.verdict_range if isinstance(verdict, WindowVerdict) else verdict
        place, count = 0, len(verdict_range.verdicts)
        while place < count:
            before = state.open
            state, place = _next_state(verdict_range, place, state)
            if before is not None and state.open is None:
                ended.append(structs.replace(before, ended=verdict_range.window_start(place - 1)))
    if state.open is not None:
        ended.append(state.open)
    return FoldResult(tuple(ended), state)


def _next_state(verdict_range: VerdictRange, place: int, state: FoldState) -> tuple[FoldState, int]:
    """The state and place after the window that opens or ends an episode, or at the range's end."""
    forced = verdict_range.verdicts[place]
    if forced == ENDS[0]:
        # A run of ENDS has the effect of a single one, but an episode ends with the first.
        rest = verdict_range.verdicts[place:]
        run = 1 if state.open else len(rest) - len(rest.lstrip(ENDS))
        return IDLE_STATE, place + run
    if forced == RESOLVES[0]:
        is_resolved = state.open is not None or state.is_resolved
        return (_RESOLVED_STATE if is_resolved else IDLE_STATE), place + 1
    if (until := _next_forced(verdict_range, place)) < len(verdict_range.verdicts):
        verdict_range = structs.replace(verdict_range, verdicts=verdict_range.verdicts[:until])
    if state.is_resolved:
        clearing = verdict_range.verdicts.find(CLEARS, place)
        return (state, len(verdict_range.verdicts)) if clearing < 0 else (IDLE_STATE, clearing + 1)
    if state.open is None:
        return _fold_until_raised(verdict_range, place, state)
    return _fold_until_cleared(verdict_range, place, state)


def _next_forced(verdict_range: VerdictRange, place: int) -> int:
    """The place of the next window with ENDS or RESOLVES, or the end of the range."""
    # Most ranges have no such window, and their largest byte shows that at once.
    if max(verdict_range.verdicts) <= CLEARS[0]:
        return len(verdict_range.verdicts)
    hits = (verdict_range.verdicts.find(kind, place) for kind in (ENDS, RESOLVES))
    return min((hit for hit in hits if hit >= 0), default=len(verdict_range.verdicts))


def _fold_until_raised(
    verdict_range: VerdictRange, place: int, state: FoldState
) -> tuple[FoldState, int]:
    """The state and the place after the window that opens an episode, or at the range's end."""
    since = verdict_range.window_start(place) if state.since is None else state.since
    # A run continues across versions; the version of its last window decides if it is long enough.
    end = _end_of_run(verdict_range, place, RAISES, verdict_range.for_ - state.run)
    if end is not None:
        run = state.run + end - place
        if run < verdict_range.for_:
            return FoldState(run, since), end
        return _open_episode(verdict_range, since, end), end
    # The earlier run is broken, so only a run within this range can open an episode.
    first = verdict_range.verdicts.find(RAISES * verdict_range.for_, place)
    if first >= 0:
        end = first + verdict_range.for_
        return _open_episode(verdict_range, verdict_range.window_start(first), end), end
    count, rest = len(verdict_range.verdicts), _count_at_end(verdict_range, place, RAISES)
    if not rest:
        return IDLE_STATE, count
    return FoldState(rest, verdict_range.window_start(count - rest)), count


def _open_episode(verdict_range: VerdictRange, since: int, end: int) -> FoldState:
    raised = verdict_range.window_start(end - 1)
    return FoldState(open=Episode(since, raised, verdict_range.version))


def _fold_until_cleared(
    verdict_range: VerdictRange, place: int, state: FoldState
) -> tuple[FoldState, int]:
    """The state and the place after the window that ends the episode, or at the range's end."""
    # The windows must clear in a row, like the run that raised: unknown windows end nothing.
    end = _end_of_run(verdict_range, place, CLEARS, verdict_range.clear_for - state.clear_run)
    if end is not None:
        run = state.clear_run + end - place
        has_ended = run >= verdict_range.clear_for
        return (IDLE_STATE if has_ended else FoldState(open=state.open, clear_run=run)), end
    first = verdict_range.verdicts.find(CLEARS * verdict_range.clear_for, place)
    if first >= 0:
        return IDLE_STATE, first + verdict_range.clear_for
    rest = _count_at_end(verdict_range, place, CLEARS)
    return FoldState(open=state.open, clear_run=rest), len(verdict_range.verdicts)


def _end_of_run(verdict_range: VerdictRange, place: int, kind: bytes, lacking: int) -> int | None:
    """The place where a run that continues here is long enough, or the end of the range.

    None where the run breaks. `lacking`: the number of windows that the run still needs.
    """
    # At least one more window is needed, even if a new version needs a shorter run than before.
    length = min(max(1, lacking), len(verdict_range.verdicts) - place)
    return place + length if verdict_range.verdicts.startswith(kind * length, place) else None


def _count_at_end(verdict_range: VerdictRange, place: int, kind: bytes) -> int:
    """The number of consecutive windows with that verdict at the end of the range."""
    after = verdict_range.verdicts[place:]
    return len(after) - len(after.rstrip(kind))


def reduce_to_grain(
    pieces: Iterable[tuple[VerdictRange, Collection[int] | None]],
) -> list[VerdictRange]:
    """The ranges of a day as they are folded.

    In:  the ranges of the day in their order, each with the starts of the windows in which an hour
         or a day ends; None where each window counts.
    Out: ranges with such starts are reduced to those windows, and to any others with a verdict.
         The sum of `covered_count` is the number of windows that are covered from the day's first
         one on, without those of an hour or day that is not covered.
    """
    listed = [*pieces]
    if all(ends is None for _, ends in listed):
        return [verdict_range for verdict_range, _ in listed]
    found: list[VerdictRange] = []
    is_whole = True
    for verdict_range, ends in listed:
        whole = [(verdict_range, len(verdict_range.verdicts))]
        for piece, count in whole if ends is None else _split_range(verdict_range, ends):
            # After a window that is not covered no later one counts as covered.
            found.append(piece if is_whole else structs.replace(piece, covered_count=0))
            is_whole = is_whole and piece.covered_count == count
    return found


def _split_range(
    verdict_range: VerdictRange, ends: Collection[int]
) -> Iterator[tuple[VerdictRange, int]]:
    """A range for each counted window, an empty one for the rest; with their numbers of windows."""
    verdicts, covered_count, begin = verdict_range.verdicts, verdict_range.covered_count, 0
    # This empty range folds nothing; it marks where the day begins.
    yield structs.replace(verdict_range, verdicts=b"", covered_count=0), 0
    for place, verdict in enumerate(verdicts):
        if verdict_range.window_start(place) in ends or verdict != LEAVES[0]:
            count = place + 1 - begin
            piece = structs.replace(
                verdict_range,
                start=verdict_range.window_start(place),
                verdicts=verdicts[place : place + 1],
                covered_count=count if covered_count > place else 0,
            )
            yield piece, count
            begin = place + 1
    rest = len(verdicts) - begin
    whole = rest if covered_count == len(verdicts) else 0
    rest_start = verdict_range.window_start(begin)
    yield structs.replace(verdict_range, start=rest_start, verdicts=b"", covered_count=whole), rest
