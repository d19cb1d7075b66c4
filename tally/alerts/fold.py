"""Verdicts, window after window, become episodes: from the first window that raised to the one
that ended it."""

from collections.abc import Iterable

from msgspec import Struct, structs

from tally.alerts.verdict import Ruling


class Judgement(Struct, frozen=True):
    """The verdict on one window, by the rule's version that is in force in it.

    `window`: its start, milliseconds since 1970 (UTC). `for_` and `clear_for`: of that version, how
    many windows in a row. `is_complete`: it is served `complete: true`, by a generation. Where no
    version is in force, or a retired one, the verdict is 0.
    """

    window: int
    verdict: Ruling
    version: int = 0
    for_: int = 1
    clear_for: int = 1
    is_complete: bool = False


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
    is it, and the last `clear_run` windows have cleared. Equal states go on alike.
    """

    run: int = 0
    since: int | None = None
    open: Episode | None = None
    clear_run: int = 0

    @property
    def reaches_back_to(self) -> int | None:
        """Start of the first window that an episode from here on may hold; None: of none so far."""
        return self.since if self.open is None else self.open.start


AT_REST = FoldState()


class Folded(Struct, frozen=True):
    """The episodes that a stretch has a part in, the one that is open at its end the last; and the
    state there."""

    episodes: tuple[Episode, ...]
    state: FoldState


def fold(judgements: Iterable[Judgement], state: FoldState = AT_REST) -> Folded:
    """The episodes of consecutive windows, from a state on that other windows have led to.

    In:  every window of the stretch in its order, also those that say nothing: a run is of windows
         in a row.
    Out: whole episodes. One that was open at the begin is among them, with its own start.

    Folding the days of a chain one after the other, each from the state of the one before, is
    folding them all at once. An open episode goes on across versions: the next one decides when it
    ends.
    """
    ended: list[Episode] = []
    # Nothing is looked back at: what came before is in the state, however long ago it was.
    for one in judgements:
        before, state = state.open, _next(state, one)
        if before is not None and state.open is None:
            ended.append(structs.replace(before, ended=one.window))
    if state.open is not None:
        ended.append(state.open)
    return Folded(tuple(ended), state)


def _next(state: FoldState, one: Judgement) -> FoldState:
    if state.open is not None:
        # In a row, like the run that raised: what is not known is no sign of an end.
        clear_run = state.clear_run + 1 if one.verdict == -1 else 0
        has_ended = clear_run and clear_run >= one.clear_for
        return AT_REST if has_ended else FoldState(open=state.open, clear_run=clear_run)
    if one.verdict != 1:
        return AT_REST
    # A run goes on across versions; the one in force in its last window says whether it is enough.
    run, since = state.run + 1, one.window if state.since is None else state.since
    if run < one.for_:
        return FoldState(run, since)
    return FoldState(open=Episode(since, one.window, one.version))
