"""The days of the year before that a report's days are compared with, day by day."""

from collections.abc import Sequence
from datetime import date, timedelta
from itertools import pairwise

from serving.questions.grains import Slot
from serving.questions.question import StoreSlots
from serving.questions.stores import Store, holiday_lookup
from tally.errors import BadQuery
from tally.time.like_for_like import ComparableDay, like_for_like

_ONE_DAY = timedelta(days=1)
# The most stretches that an error message proposes instead.
_MAX_SHOWN = 5
_ELSE = "or with compare=before"


def like_span(store: Store, asked: StoreSlots) -> Slot:
    """The span of the days that the asked ones are like, from the begin of one to that of another.

    Raises BadQuery where they are not consecutive days in the same order: a sum over the span would
    then include other days.
    """
    clock = asked.clock
    first, end = (clock.day(boundary) for boundary in asked.span)
    days = [first + more * _ONE_DAY for more in range((end - first).days)]
    names_of = holiday_lookup(store)
    before = [_like_day(day, like_for_like(day, names_of)) for day in days]
    _refuse_scattered(days, before)
    after = before[-1] + _ONE_DAY
    return Slot(clock.start_of_day(before[0]), clock.start_of_day(after))


def _like_day(day: date, like: ComparableDay) -> date:
    if like.day is None:
        raise BadQuery(
            "compare",
            f"compare: {day} is like no day ({like.reason}); ask for the days beside it, {_ELSE}",
        )
    return like.day


def _refuse_scattered(days: Sequence[date], before: Sequence[date]) -> None:
    # The day that each would be like if these days were consecutive.
    following = [before[0], *(earlier + _ONE_DAY for earlier in before)]
    each = zip(days, before, following, strict=False)
    torn = [day for day, like, due in each if like != due]
    if not torn:
        return
    # Each stretch between two breaks can be compared on its own.
    bounds = [days[0], *torn, days[-1] + _ONE_DAY]
    spans = [f"from={first}&to={end}" for first, end in pairwise(bounds)]
    more = len(spans) - _MAX_SHOWN
    # Limited, for a year has a dozen holidays.
    left_out = f" and {more} more" if more > 0 else ""
    raise BadQuery(
        "compare",
        "compare: the days that these are like do not follow each other (a holiday, or a year of"
        f" 53 weeks); ask for each of {', '.join(spans[:_MAX_SHOWN])}{left_out}, {_ELSE}",
    )
