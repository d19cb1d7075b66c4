"""A value by article or by category, the largest first, and the part that no entry explains."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from serving.metrics.formulas import MetricValue
from serving.reports.comparison import ComparedValue, refuse_mixed_currencies
from serving.stock.items import RECEIPTS, UNITS, ItemAxis, ItemKey, ItemSums

# The sums of the days, and of the days before; the entries' shares and previous values use both.
Sums = tuple[ItemSums, ItemSums]


@dataclass(frozen=True)
class ItemQuestion:
    """The axis of the series, and the number of entries before the rest is joined into one."""

    by: ItemAxis = "item"
    top: int = 20


@dataclass(frozen=True)
class ItemEntry:
    """An article, or a category: only articles have `item_id` and `item`.

    `others` is the number of articles or categories that the entry sums up, None for a single one.
    Their `receipts` are None, for one receipt may have several of them. `share` is that of the
    value; None where the value is not above 0.
    """

    by: ItemAxis
    item_id: str | None
    item: str | None
    category: str | None
    value: int
    units: MetricValue
    receipts: MetricValue
    share: float | None
    previous: int
    others: int | None = None


@dataclass(frozen=True)
class UnexplainedAmounts:
    """Minor units of the value, and of the one before, that no article has; None: not known."""

    now: int | None
    before: int | None


def build_entries(
    asked: ItemQuestion, sums: Sums, found: ComparedValue
) -> tuple[tuple[ItemEntry, ...], UnexplainedAmounts]:
    """The entries by value descending, then by id, and what they leave unexplained.

    The entries add up to the value less `now`. Raises BadQuery for money of several currencies.
    """
    now, before = sums
    of_value = set() if found.currency is None else {found.currency}
    refuse_mixed_currencies(of_value | now.currencies | before.currencies, found.metric)
    # Includes keys that were sold only on the days before: else those days would not add up.
    everything = now.parts.keys() | before.parts.keys()
    keys = sorted(everything, key=partial(_place, now))
    top, rest = keys[: asked.top], keys[asked.top :]
    entries = [_entry(asked.by, key, sums, found) for key in top]
    if rest:
        entries.append(_others(asked.by, rest, sums, found))
    return tuple(entries), UnexplainedAmounts(
        _remainder(found.value, now.revenue(now.parts)),
        _remainder(found.previous, before.revenue(before.parts)),
    )


def _place(now: ItemSums, key: ItemKey) -> tuple[int, str]:
    return -now.revenue([key]), key or ""


def _entry(by: ItemAxis, key: ItemKey, sums: Sums, found: ComparedValue) -> ItemEntry:
    now, before = sums
    named = now.names.get(key) or before.names[key]
    value = now.revenue([key])
    return ItemEntry(
        by,
        key if by == "item" else None,
        named.item if by == "item" else None,
        named.category,
        value,
        now.total(UNITS, [key]),
        now.total(RECEIPTS, [key]),
        _share(value, found.value),
        before.revenue([key]),
    )


def _others(by: ItemAxis, keys: Sequence[ItemKey], sums: Sums, found: ComparedValue) -> ItemEntry:
    now, before = sums
    value = now.revenue(keys)
    return ItemEntry(
        by,
        None,
        None,
        None,
        value,
        now.total(UNITS, keys),
        None,
        _share(value, found.value),
        before.revenue(keys),
        len(keys),
    )


def _share(value: int, whole: MetricValue) -> float | None:
    # A share of a value that returns brought to 0 or below says nothing.
    return round(value / whole, 6) if whole is not None and whole > 0 else None


def _remainder(value: MetricValue, explained: int) -> int | None:
    return None if value is None else int(value) - explained
