"""Days whose serving generation is another one than that by which they were judged."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import NamedTuple

from msgspec import structs

from serving.alerts.evaluator.calendar import WindowSpan, days_in_utc, millis_of, utc_span
from serving.alerts.evaluator.memory import JudgedDay, PartitionMemory
from tally.alerts.message import Reason
from tally.alerts.tick import SpeedEpoch
from tally.epochs import Epochs
from tally.generation import Generation

_NEVER = JudgedDay()
# Notices of restatements are kept for longer than this, in milliseconds.
_RESTATEMENTS_KEPT = 24 * 3_600_000


class MovedDays(NamedTuple):
    """UTC days of a family that have to be judged in all stores, newest first.

    `judged`: by what each is judged now; `causes`: of those whose generation is of a higher epoch
    why their numbers may be others; `restated`: those that were whole and still are, of the same
    epoch: of them only windows have changed that a notice names.
    """

    days: tuple[date, ...]
    judged: Mapping[date, JudgedDay]
    causes: Mapping[date, Reason]
    restated: frozenset[date] = frozenset()

    @property
    def everywhere(self) -> tuple[date, ...]:
        """Those to be judged in all stores."""
        return tuple(day for day in self.days if day not in self.restated)

    def newest(self, most: int) -> "MovedDays":
        """The same of so many days at most."""
        return self._replace(days=self.days[:most])


def has_news(memory: PartitionMemory, family: str) -> bool:
    """Whether any day may be served by another generation, or its speed rows count otherwise."""
    before, now = memory.last, memory.tick
    return (before.flips.get(family), before.epoch.get(family)) != (
        now.flips.get(family),
        now.epoch.get(family),
    )


def moved(
    memory: PartitionMemory,
    family: str,
    days: Sequence[date],
    served: Mapping[date, Generation],
    definition: Epochs,
) -> MovedDays:
    """Which of the days have moved; `served`: the generations as they were read.

    `definition`: the epochs without those that days were raised to.
    """
    speed = memory.tick.epoch.get(family)
    judged: dict[date, JudgedDay] = {}
    causes: dict[date, Reason] = {}
    restated: set[date] = set()
    whole = [day for day, one in served.items() if _is_covered(one, day)]
    newest_whole = max(whole, default=date.min)
    # What is newest is waited for most, where not all of them can be judged at once.
    for day in sorted(days, reverse=True):
        before = memory.judged.get((family, day), _NEVER)
        now = _judged_by(served.get(day), day, speed)
        if day in served and day not in whole and (newest_whole > day or before.is_settled):
            # Rebuilds have gone on behind it: what they do not cover of it they never will.
            now = structs.replace(now, is_settled=True)
        if now != before:
            judged[day] = now
        if _is_restated(before, now) and _has_all_restatements(memory):
            restated.add(day)
        # A day that was never judged has told nothing that could be taken back.
        if before.generation and now.epoch > before.epoch:
            causes[day] = _cause(now.epoch, definition.of(day))
    return MovedDays(tuple(judged), judged, causes, frozenset(restated & judged.keys()))


def judged_days(span: WindowSpan) -> list[date]:
    """The UTC days of the windows, ascending; none of an empty span."""
    return days_in_utc(span) if span.start < span.end else []


def _judged_by(one: Generation | None, day: date, speed: SpeedEpoch | None) -> JudgedDay:
    if one is None:
        return JudgedDay(speed=speed)
    if _is_covered(one, day):
        return JudgedDay(one.generation, one.epoch, is_whole=True)
    return JudgedDay(one.generation, one.epoch, speed)


def _is_restated(before: JudgedDay, now: JudgedDay) -> bool:
    """Whether the day was judged whole, and is so by rows of the same definition."""
    return before.is_whole and now.is_whole and before.epoch == now.epoch and before.generation > 0


def _has_all_restatements(memory: PartitionMemory) -> bool:
    """Whether Kafka still has every notice since the last judgement."""
    return memory.tick.at - memory.last.at < _RESTATEMENTS_KEPT


def _cause(epoch: int, defined: int) -> Reason:
    """Above the definition's own lies what days were raised to: something of them was erased."""
    return "erasure" if epoch > defined else "definition"


def _is_covered(one: Generation, day: date) -> bool:
    """Whether no window of the day is left to the speed layer."""
    covered = WindowSpan(millis_of(one.covered_from), millis_of(one.covered_until))
    return covered.start <= utc_span(day).start and utc_span(day).end <= covered.end
