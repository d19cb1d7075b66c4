"""One page of a checked question, as the query engine takes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

from serving.cells.dimensions import Values
from serving.metrics.catalogue import Metric
from serving.questions.question import MAX_ENTRIES, StoreSlots


@dataclass(frozen=True)
class Query:
    """One page of a question: the metric, its stretches by store, its dimensions.

    `as_of` is the instant whose answer is wanted, `values` are those of the dimensions in the whole
    question, and `limit` is the largest number of rows of a page. A question of several pages also
    has its UTC days (`page_days`) and the generations that the earlier pages saw
    (`earlier_generations`).
    """

    metric: Metric
    stores: Sequence[StoreSlots]
    by: Sequence[str]
    as_of: datetime | None
    values: Values = field(default_factory=dict)
    page_days: tuple[date, date] | None = None
    earlier_generations: Mapping[str, int] | None = None
    limit: int = MAX_ENTRIES

    def __post_init__(self) -> None:
        # Without its resets a level would be a plain sum, which looks like a valid number.
        assert not self.metric.is_level or all(store.resets for store in self.stores)
        assert not self.metric.stock or all(store.stock_baseline for store in self.stores)
