"""UTC days whose serving generation differs from the one by which they were evaluated."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import NamedTuple

from msgspec import structs

from alerting.evaluate.snapshot.calendar import WindowSpan, days_in_utc, utc_span
from alerting.evaluate.state.memory import EvaluatedDay, PartitionMemory
from tally.alerts.message import Reason
from tally.alerts.tick import SpeedEpoch
from tally.families.epochs import Epochs
from tally.families.generation import Generation
from tally.time.instants import DAY_MILLIS, to_millis

_NEVER = EvaluatedDay()
# Kafka keeps notices of restatements longer than this, in milliseconds.
_RESTATEMENT_RETENTION_MILLIS = DAY_MILLIS


class ChangedDays(NamedTuple):
    """UTC days of a family that have to be evaluated in all stores, newest first.

    `evaluated`: the generation by which each day is evaluated now. `retraction_reasons`: why
    numbers may have changed on days whose generation has a higher epoch. `restated`: days that were
    whole and still are, in the same epoch; in these only windows that a notice names have changed.
    """

    days: tuple[date, ...]
    evaluated: Mapping[date, EvaluatedDay]
    retraction_reasons: Mapping[date, Reason]
    restated: frozenset[date] = frozenset()

    @property
    def everywhere(self) -> tuple[date, ...]:
        """The days to be evaluated in all stores."""
        return tuple(day for day in self.days if day not in self.restated)

    def newest(self, most: int) -> "ChangedDays":
        """The newest of these days, at most `most` of them."""
        return self._replace(days=self.days[:most])


def may_have_changed(memory: PartitionMemory, family: str) -> bool:
    """Whether a day may have another generation, or speed rows of another definition."""
    before, now = memory.last_tick, memory.tick
    return (before.flips.get(family), before.epoch.get(family)) != (
        now.flips.get(family),
        now.epoch.get(family),
    )


def find_changed_days(
    memory: PartitionMemory,
    family: str,
    days: Sequence[date],
    served: Mapping[date, Generation],
    definition: Epochs,
) -> ChangedDays:
    """The days that have to be evaluated again; `served`: the generations as they were read.

    `definition`: the family's epochs without any raised day.
    """
    speed = memory.tick.epoch.get(family)
    evaluated: dict[date, EvaluatedDay] = {}
    causes: dict[date, Reason] = {}
    restated: set[date] = set()
    whole = [day for day, generation in served.items() if _is_covered(generation, day)]
    newest_whole = max(whole, default=date.min)
    # Newest first: recent days are the most urgent when not all can be evaluated in one pass.
    for day in sorted(days, reverse=True):
        before = memory.evaluated_days.get((family, day), _NEVER)
        now = _build_evaluated_day(served.get(day), day, speed)
        if day in served and day not in whole and (newest_whole > day or before.is_settled):
            # Rebuilds have gone on to later days: windows that they left out stay uncovered.
            now = structs.replace(now, is_settled=True)
        if now != before:
            evaluated[day] = now
        if _is_restated(before, now) and _has_all_restatements(memory):
            restated.add(day)
        # A day that was never evaluated has no alerts that could be retracted.
        if before.generation and now.epoch > before.epoch:
            causes[day] = _cause(now.epoch, definition.for_day(day))
    return ChangedDays(tuple(evaluated), evaluated, causes, frozenset(restated & evaluated.keys()))


def span_utc_days(span: WindowSpan) -> list[date]:
    """The UTC days of the windows, ascending; none of an empty span."""
    return days_in_utc(span) if span.start < span.end else []


def _build_evaluated_day(
    serving: Generation | None, day: date, speed: SpeedEpoch | None
) -> EvaluatedDay:
    if serving is None:
        return EvaluatedDay(speed=speed)
    if _is_covered(serving, day):
        return EvaluatedDay(serving.generation, serving.epoch, is_whole=True)
    return EvaluatedDay(serving.generation, serving.epoch, speed)


def _is_restated(before: EvaluatedDay, now: EvaluatedDay) -> bool:
    """Whether the day was evaluated whole, and still is whole by rows of the same definition."""
    return before.is_whole and now.is_whole and before.epoch == now.epoch and before.generation > 0


def _has_all_restatements(memory: PartitionMemory) -> bool:
    """Whether Kafka still has every notice since the last evaluation."""
    return memory.tick.at - memory.last_tick.at < _RESTATEMENT_RETENTION_MILLIS


def _cause(epoch: int, defined: int) -> Reason:
    """Why a day has a higher epoch: an epoch above that of its definition is due to an erasure."""
    return "erasure" if epoch > defined else "definition"


def _is_covered(generation: Generation, day: date) -> bool:
    """Whether no window of the day is left to the speed layer."""
    covered = WindowSpan(to_millis(generation.covered_from), to_millis(generation.covered_until))
    return covered.start <= utc_span(day).start and utc_span(day).end <= covered.end
