"""What a baseline rule asks of a local day: which windows of which store, by which weeks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tally.alerts.comparison import Usual
from tally.alerts.rule import AgainstBaseline, BaselineName, Rule


# No tuple: that of something else would be the same.
@dataclass(frozen=True)
class UsualOf:
    """The windows of the local day of a store that begins at `start`, ms since 1970 (UTC)."""

    metric: str
    store_id: str
    start: int
    baseline: BaselineName


# By the start of a window, ms since 1970 (UTC).
UsualWindows = Mapping[int, Usual]


class UsualSource(Protocol):
    """Who says what is usual."""

    async def read(self, wanted: Sequence[UsualOf]) -> Mapping[UsualOf, UsualWindows]:
        """By day and by window what is usual in it.

        One of which nobody knows that is absent. Raises ViewsUnreachable.
        """
        ...


def usual_of(rule: Rule, store_id: str, start: int) -> UsualOf | None:
    """What the rule asks of the local day that begins then; None of a rule that asks nothing."""
    if not isinstance(rule.condition, AgainstBaseline) or rule.metric is None:
        return None
    return UsualOf(rule.metric, store_id, start, rule.condition.baseline)
