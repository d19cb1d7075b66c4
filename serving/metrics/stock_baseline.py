"""The instant from which a store has to be read to compute the stock of its articles."""

from dataclasses import dataclass
from datetime import datetime

from serving.metrics.formulas import StockAt


@dataclass(frozen=True)
class StockBaseline:
    """The stock of one store: its formula, and since when (UTC) its articles are counted.

    `since` is the window of the earliest of the articles' last counts before the asked stretches;
    `articles` are those that the store has documents of.
    """

    stock: StockAt
    since: datetime
    articles: frozenset[str]
