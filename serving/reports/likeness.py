"""Which days of the year before a report's days are like, day by day in their order."""

from collections.abc import Sequence
from datetime import date, timedelta
from itertools import pairwise

from serving.query.grains import Slot
from serving.query.question import StoreSlots
from serving.query.store_calendar import holidays_of
from serving.query.stores import Store
from tally.calendar.like_for_like import LikeDay, like_for_like
from tally.errors import BadQuery

_ONE_DAY = timedelta(days=1)
# Of the stretches that could be asked for instead.
_MOST_TOLD = 5
_ELSE = "or with compare=before"


def like_span(store: Store, asked: StoreSlots) -> Slot:
    """The span of the days that the asked ones are like, from the begin of one to that of another.

    Raises BadQuery where they are no days in a row in the same order: a sum of them would be the
    sum of other days too.
    """
    clock = asked.clock
    first, end = (clock.day(one) for one in asked.span)
    days = [first + more * _ONE_DAY for more in range((end - first).days)]
    names_of = holidays_of(store)
    before = [_known(day, like_for_like(day, names_of)) for day in days]
    _refuse_scattered(days, before)
    after = before[-1] + _ONE_DAY
    return Slot(clock.begins(before[0]), clock.begins(after))


def _known(day: date, like: LikeDay) -> date:
    if like.day is None:
        raise BadQuery(
            "compare",
            f"compare: {day} is like no day ({like.because}); ask for the days beside it, {_ELSE}",
        )
    return like.day


def _refuse_scattered(days: Sequence[date], before: Sequence[date]) -> None:
    # Which day each would be like if it followed the one that the day before it is like.
    following = [before[0], *(one + _ONE_DAY for one in before)]
    each = zip(days, before, following, strict=False)
    torn = [day for day, like, due in each if like != due]
    if not torn:
        return
    # Each stretch between can be compared by itself.
    bounds = [days[0], *torn, days[-1] + _ONE_DAY]
    spans = [f"from={first}&to={end}" for first, end in pairwise(bounds)]
    more = len(spans) - _MOST_TOLD
    # A year has a dozen holidays: the sentence is to end.
    left_out = f" and {more} more" if more > 0 else ""
    raise BadQuery(
        "compare",
        "compare: the days that these are like do not follow each other (a holiday, or a year of"
        f" 53 weeks); ask for each of {', '.join(spans[:_MOST_TOLD])}{left_out}, {_ELSE}",
    )
