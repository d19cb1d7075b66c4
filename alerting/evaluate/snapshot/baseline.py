"""The usual values that a baseline rule needs for a local day of a store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from alerting.rules.rule import AgainstBaseline, Rule
from tally.alerts.baseline import BaselineName, WindowBaseline


# Not a tuple: a tuple of the same fields could equal the key of another kind of reading.
@dataclass(frozen=True)
class BaselineRequest:
    """The windows of one local day of a store whose usual values of a metric are wanted.

    `start`: the start of the day, ms since 1970 (UTC).
    """

    metric: str
    store_id: str
    start: int
    baseline: BaselineName


# The usual values by the start of the window, ms since 1970 (UTC).
BaselineWindows = Mapping[int, WindowBaseline]


class BaselineSource(Protocol):
    """A source of usual values."""

    async def read(
        self, wanted: Sequence[BaselineRequest]
    ) -> Mapping[BaselineRequest, BaselineWindows]:
        """The usual values by day and window; windows without a known value are absent.

        Raises ViewsUnreachable when a read fails.
        """
        ...


def baseline_request(rule: Rule, store_id: str, start: int) -> BaselineRequest | None:
    """The key of the usual values that the rule needs on the local day beginning at `start`.

    `start`: ms since 1970 (UTC). None for a rule without a baseline.
    """
    if not isinstance(rule.condition, AgainstBaseline) or rule.metric is None:
        return None
    return BaselineRequest(rule.metric, store_id, start, rule.condition.baseline)
