"""What is to be told now: the difference between the alerts that are called for and those told.

Level, not edge: who judges twice tells nothing the second time, whatever has woken him.

| from                   | when                               | to                              |
|------------------------|------------------------------------|---------------------------------|
| nothing                | wanted, not settled                | provisional                     |
| nothing                | wanted, settled                    | confirmed                       |
| provisional            | wanted, settled                    | confirmed                       |
| provisional, confirmed | not wanted, settled                | retracted                       |
| provisional, confirmed | not wanted, not settled            | as it was                       |
| retracted              | wanted again                       | another alert, `occurrence` 2   |

Only a generation settles; so speed and batch never take each other's word back in turn.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field, structs

from tally.alerts.days import FoldedDays
from tally.alerts.fold import Episode
from tally.alerts.ids import Chain, alert_id
from tally.alerts.match import Matching, match
from tally.alerts.message import Edge, Reason
from tally.alerts.told import ToldAlert
from tally.windows import WINDOW_MILLIS


class Basis(Struct, frozen=True, kw_only=True):
    """By which time is judged, and why what is not called for any more is not.

    `at`: that of the tick, milliseconds since 1970 (UTC). `late_after`: seconds behind a window's
    end from which on a first message is late, the rule's `delay` and `late_after` together. Of a
    window that is not in `causes` it was late data.
    """

    at: int
    late_after: int
    causes: Mapping[int, Reason] = field(default_factory=dict)


class Transition(Struct, frozen=True):
    """One message: the alert as it is told from now on, and why it was taken back if it was.

    `judged`: start of the window that calls for it now, milliseconds since 1970 (UTC); after late
    data it may be another one than that of which the alert was first told.
    """

    alert: ToldAlert
    judged: int
    reason: Reason | None = None


def transitions(
    chain: Chain, days: FoldedDays, told: Iterable[ToldAlert], basis: Basis
) -> list[Transition]:
    """What is to be told of a chain after some of its days were folded, in the order of telling.

    In:  `told`: every alert of the chain that its days may hold, also those taken back.
    Out: each one a message and a record of the state; of an end never before its raise.

    Where a rule is retired, or leaves the store, its verdict is ENDS: that ends the episode.
    """
    return _Judging(chain, days, sorted(told, key=_in_order), basis).transitions()


def _in_order(one: ToldAlert) -> tuple[int, int, str]:
    return one.window, one.occurrence, one.alert_id


class _Judging:
    """One chain, some of its days, and what was told of them before."""

    def __init__(
        self, chain: Chain, days: FoldedDays, told: Sequence[ToldAlert], basis: Basis
    ) -> None:
        self.chain, self.days, self.told, self.basis = chain, days, told, basis
        standing = [one for one in told if one.is_standing]
        self.raises = {one.alert_id: one for one in standing if one.edge == "raise"}
        # By their raise, which has one at a time.
        self.ends = {one.of: one for one in standing if one.edge == "clear"}

    def transitions(self) -> list[Transition]:
        """As above."""
        here = (one for one in self.raises.values() if self._is_here(one.window))
        matching = match(here, self.days.episodes)
        raised: list[Transition] = []
        ended: list[Transition] = []
        for episode, before in matching.pairs:
            after = self._raise(episode, before)
            raised += [] if after is before else [Transition(after, episode.raised)]
            ended += self._end(episode, after)
        return [*raised, *self._taken_back(matching), *self._orphans(), *ended]

    def _is_here(self, window: int) -> bool:
        return self.days.since <= window < self.days.until

    def _raise(self, episode: Episode, before: ToldAlert | None) -> ToldAlert:
        """The episode's raise as it stands now."""
        if before is None:
            return self._first(episode, episode.raised)
        return self._confirmed(before, episode, episode.raised)

    def _end(self, episode: Episode, raised: ToldAlert) -> list[Transition]:
        before = self.ends.get(raised.alert_id)
        if episode.ended is None:
            # Beyond these days it may have ended all the same: no window of theirs settles that.
            return [] if before is None else self._retracted(before, self._cause(before))
        after = (
            self._first(episode, episode.ended, raised)
            if before is None
            else self._confirmed(before, episode, episode.ended)
        )
        return [] if after is before else [Transition(after, episode.ended)]

    def _taken_back(self, matching: Matching) -> list[Transition]:
        """Raises that no episode calls for, each with its end: nothing ends what never was."""
        found: list[Transition] = []
        for one in (*matching.merged, *matching.unwanted):
            reason: Reason = "merged" if one in matching.merged else self._cause(one)
            taken_back = self._retracted(one, reason)
            end = self.ends.get(one.alert_id)
            if taken_back and end is not None:
                # At once, though its own window may not be settled: that of its raise is.
                taken_back.append(_as_retracted(end, reason))
            found += taken_back
        return found

    def _orphans(self) -> list[Transition]:
        """Ends whose raise does not stand, in whatever way that came to be."""
        left = (one for of, one in self.ends.items() if of not in self.raises)
        return [found for one in left for found in self._retracted(one, self._cause(one))]

    def _first(self, episode: Episode, window: int, of: ToldAlert | None = None) -> ToldAlert:
        edge: Edge = "raise" if of is None else "clear"
        version = episode.version if of is None else of.version
        # Whatever it ended: the raise is no part of an end's id. Also those taken back: an id that
        # was retracted is never told again.
        before = [one for one in self.told if one.place == (version, window, edge)]
        occurrence = before[-1].occurrence + 1 if before else 1
        due = window + WINDOW_MILLIS + self.basis.late_after * 1000
        return ToldAlert(
            alert_id=alert_id(self.chain, version, window, edge, occurrence),
            chain=self.chain,
            version=version,
            edge=edge,
            window=window,
            state="confirmed" if window in self.days.settled else "provisional",
            raised_at=self.basis.at,
            start=episode.start,
            ended=episode.ended,
            occurrence=occurrence,
            of=None if of is None else of.alert_id,
            supersedes=before[-1].alert_id if before else None,
            late=self.basis.at > due,
        )

    def _confirmed(self, one: ToldAlert, episode: Episode, window: int) -> ToldAlert:
        """The alert once its own window and that of which it is now are settled; else itself."""
        # Both: a run may go over midnight, and the days of its two ends be settled one by one.
        if one.state == "confirmed" or not {one.window, window} <= self.days.settled:
            return one
        end = self.ends.get(one.alert_id)
        known_end = None if end is None or self._is_here(end.window) else end.window
        ended = known_end if episode.ended is None else episode.ended
        return structs.replace(one, state="confirmed", start=episode.start, ended=ended)

    def _retracted(self, one: ToldAlert, reason: Reason) -> list[Transition]:
        return [_as_retracted(one, reason)] if one.window in self.days.settled else []

    def _cause(self, one: ToldAlert) -> Reason:
        return self.basis.causes.get(one.window, "late_data")


def _as_retracted(one: ToldAlert, reason: Reason) -> Transition:
    return Transition(structs.replace(one, state="retracted"), one.window, reason)
