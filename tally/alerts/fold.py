"""Verdicts, window after window, become episodes: from the first window that raised to the one
that ended it."""

from collections.abc import Iterable

from msgspec import Struct, structs

from tally.alerts.verdict import CLEARS, ENDS, RAISES, RESOLVES, Ruling, ruling_byte
from tally.windows import WINDOW_MILLIS


class JudgedStretch(Struct, frozen=True):
    """Consecutive windows that one version judges, the first of them `start`, in milliseconds since
    1970 (UTC).

    `verdicts`: a byte each (tally/alerts/verdict.py). `for_` and `clear_for`: of that version, how
    many windows in a row. `complete`: how many of them, from the first one on, are served
    `complete: true`, by a generation. Where no version is in force, or a retired one, the verdicts
    are 0.
    """

    start: int
    verdicts: bytes
    version: int = 0
    for_: int = 1
    clear_for: int = 1
    complete: int = 0

    def window(self, place: int) -> int:
        """Start of a window by its number in the stretch, milliseconds since 1970 (UTC)."""
        return self.start + place * WINDOW_MILLIS


class Judgement(Struct, frozen=True):
    """The verdict on one window, by the rule's version that is in force in it: a stretch of one.

    `window`: its start, milliseconds since 1970 (UTC). `is_complete`: it is served `complete:
    true`, by a generation.
    """

    window: int
    verdict: Ruling
    version: int = 0
    for_: int = 1
    clear_for: int = 1
    is_complete: bool = False

    @property
    def stretch(self) -> JudgedStretch:
        """The same as a stretch."""
        verdicts, complete = ruling_byte(self.verdict), int(self.is_complete)
        runs = self.for_, self.clear_for
        return JudgedStretch(self.window, verdicts, self.version, *runs, complete)


class Episode(Struct, frozen=True):
    """Windows that belong together, by their starts in milliseconds since 1970 (UTC).

    `start`: the first of the run that raised; `raised`: the last of it, with its version; `ended`:
    the window that cleared, which belongs to it no more, or None while it is open.
    """

    start: int
    raised: int
    version: int
    ended: int | None = None

    def contains(self, window: int) -> bool:
        """Whether the window that starts then lies in it."""
        return self.start <= window and (self.ended is None or window < self.ended)


class FoldState(Struct, frozen=True):
    """Where a fold stands between two windows.

    Before an episode: `run` windows in a row have raised, the first of them `since`. In one: `open`
    is it, and the last `clear_run` windows have cleared. `is_resolved`: a person ended the last
    episode, and no window has cleared since. Equal states go on alike.
    """

    run: int = 0
    since: int | None = None
    open: Episode | None = None
    clear_run: int = 0
    is_resolved: bool = False

    @property
    def reaches_back_to(self) -> int | None:
        """Start of the first window that an episode from here on may hold; None: of none so far."""
        return self.since if self.open is None else self.open.start


AT_REST = FoldState()
_RESOLVED = FoldState(is_resolved=True)


class Folded(Struct, frozen=True):
    """The episodes that a stretch has a part in, the one that is open at its end the last; and the
    state there."""

    episodes: tuple[Episode, ...]
    state: FoldState


def fold(judged: Iterable[Judgement | JudgedStretch], state: FoldState = AT_REST) -> Folded:
    """The episodes of consecutive windows, from a state on that other windows have led to.

    In:  every window in its order, also those that say nothing: a run is of windows in a row.
    Out: whole episodes. One that was open at the begin is among them, with its own start.

    Folding the days of a chain one after the other, each from the state of the one before, is
    folding them all at once, and however they are cut into stretches. An open episode goes on
    across versions: the next one decides when it ends.
    """
    ended: list[Episode] = []
    # Nothing is looked back at: what came before is in the state, however long ago it was.
    for one in judged:
        stretch = one.stretch if isinstance(one, Judgement) else one
        place, count = 0, len(stretch.verdicts)
        while place < count:
            before = state.open
            state, place = _next_state(stretch, place, state)
            if before is not None and state.open is None:
                ended.append(structs.replace(before, ended=stretch.window(place - 1)))
    if state.open is not None:
        ended.append(state.open)
    return Folded(tuple(ended), state)


def _next_state(one: JudgedStretch, place: int, state: FoldState) -> tuple[FoldState, int]:
    """The state behind the next windows, and the place there: behind the window that opens or ends
    an episode, if any does, or at the stretch's end."""
    forced = one.verdicts[place]
    if forced == ENDS[0]:
        # Many of them in a row are as good as one, but an episode ends with the first.
        return AT_REST, place + 1 if state.open else _behind(one, place, ENDS)
    if forced == RESOLVES[0]:
        is_resolved = state.open is not None or state.is_resolved
        return (_RESOLVED if is_resolved else AT_REST), place + 1
    if (until := _next_forced(one, place)) < len(one.verdicts):
        one = structs.replace(one, verdicts=one.verdicts[:until])
    if state.is_resolved:
        cleared = one.verdicts.find(CLEARS, place)
        return (state, len(one.verdicts)) if cleared < 0 else (AT_REST, cleared + 1)
    if state.open is None:
        return _until_raised(one, place, state)
    return _until_cleared(one, place, state)


def _next_forced(one: JudgedStretch, place: int) -> int:
    """Place of the next window that ends an episode whatever its numbers are, or the end."""
    # Most stretches have none: the largest byte says so at once.
    if max(one.verdicts) <= CLEARS[0]:
        return len(one.verdicts)
    found = (one.verdicts.find(kind, place) for kind in (ENDS, RESOLVES))
    return min((at for at in found if at >= 0), default=len(one.verdicts))


def _behind(one: JudgedStretch, place: int, kind: bytes) -> int:
    rest = one.verdicts[place:]
    return place + len(rest) - len(rest.lstrip(kind))


def _until_raised(one: JudgedStretch, place: int, state: FoldState) -> tuple[FoldState, int]:
    """From a place on where nothing is open: the state behind the window that opens an episode, or
    at the stretch's end, and the place there."""
    since = one.window(place) if state.since is None else state.since
    # A run goes on across versions; the one in force in its last window says whether it is enough.
    end = _end_of_run(one, place, RAISES, one.for_ - state.run)
    if end is not None:
        run = state.run + end - place
        is_enough = run >= one.for_
        return (_opened(one, since, end) if is_enough else FoldState(run, since)), end
    # What came before is broken: looked for is a run of this stretch alone.
    first = one.verdicts.find(RAISES * one.for_, place)
    if first >= 0:
        end = first + one.for_
        return _opened(one, one.window(first), end), end
    count, rest = len(one.verdicts), _at_end(one, place, RAISES)
    return (FoldState(rest, one.window(count - rest)) if rest else AT_REST), count


def _opened(one: JudgedStretch, since: int, end: int) -> FoldState:
    return FoldState(open=Episode(since, one.window(end - 1), one.version))


def _until_cleared(one: JudgedStretch, place: int, state: FoldState) -> tuple[FoldState, int]:
    """The same of an episode: behind the window that ends it, or at the stretch's end."""
    # In a row, like the run that raised: what is not known is no sign of an end.
    end = _end_of_run(one, place, CLEARS, one.clear_for - state.clear_run)
    if end is not None:
        run = state.clear_run + end - place
        has_ended = run >= one.clear_for
        return (AT_REST if has_ended else FoldState(open=state.open, clear_run=run)), end
    first = one.verdicts.find(CLEARS * one.clear_for, place)
    if first >= 0:
        return AT_REST, first + one.clear_for
    rest = _at_end(one, place, CLEARS)
    return FoldState(open=state.open, clear_run=rest), len(one.verdicts)


def _end_of_run(one: JudgedStretch, place: int, of: bytes, lacking: int) -> int | None:
    """Place behind those windows with which the run before them goes on until it is enough, or to
    the stretch's end; None where it breaks."""
    # One more at least: of a version that wants fewer the run was long enough all the while.
    wanted = min(max(1, lacking), len(one.verdicts) - place)
    return place + wanted if one.verdicts.startswith(of * wanted, place) else None


def _at_end(one: JudgedStretch, place: int, of: bytes) -> int:
    """How many windows of that verdict there are in a row at the stretch's end."""
    after = one.verdicts[place:]
    return len(after) - len(after.rstrip(of))
