"""Sales by article or category: the lines of the stored receipts, for views hold no articles.

They are added up by the rules that added up each receipt before, so the sums cannot differ.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import groupby
from typing import Literal, NamedTuple, Protocol, TypeAlias

from runtime.cassandra.writes import chunks
from runtime.http.work_pools import ANSWERS, run_in_thread_if_large
from runtime.registry.receipt_lines import load_adding_rules, parse_lines
from serving.questions.catalogue import MetricValue, WeightedSum, metric
from serving.storage.views import ReceiptHead, StoredReceipt, ViewReader
from tally.errors import BadQuery
from tally.events.receipt_rules import ChainEvent, LineFacts, adds_nothing, effective_event_ids
from tally.time.windows import TimeRange, utc_days

ItemAxis: TypeAlias = Literal["item", "category"]
# The id of an article, or a category; None for lines that name none.
ItemKey: TypeAlias = str | None
# The most that one question may read: ten seconds of a core, at 5 µs a line (measured).
MAX_RECEIPTS, MAX_LINES = 200_000, 2_000_000
# Days and pieces that are read concurrently: no question may take all the connection's requests.
DAYS_AT_ONCE, PIECES_AT_ONCE = 16, 4
# Receipts of a piece; with a thousand lines each they are still only some megabytes.
PIECE = 200
# The number of days after a span in which a void of one of its receipts is looked for.
VOID_DAYS = 31
REVENUE, UNITS, RECEIPTS = "revenue", "units", "transactions"
Heads: TypeAlias = list[ReceiptHead]


class ItemName(NamedTuple):
    """The name and the category of an article, by the newest receipt that has it."""

    offset: int
    item: str
    category: str | None


class ReceiptLines(Protocol):
    """A consumer of the receipts of a stretch, which come in lots and in no order."""

    # The number of lines of receipts read so far.
    lines: int

    def add_heads(self, heads: Sequence[ReceiptHead]) -> None:
        """Take the heads of all receipts of the stretch, including those that do not count."""

    def add(self, receipts: Iterable[StoredReceipt], counting: Mapping[str, ReceiptHead]) -> None:
        """Take some receipts; `counting` are those of the stretch that count, by identity."""


@dataclass
class ItemSums:
    """The sums of receipts by article or category, part by part, and the number of lines read."""

    by: ItemAxis
    parts: dict[ItemKey, Counter[str]] = field(default_factory=dict)
    names: dict[ItemKey, ItemName] = field(default_factory=dict)
    currencies: set[str] = field(default_factory=set)
    lines: int = 0

    def add_heads(self, heads: Sequence[ReceiptHead]) -> None:
        """Ignore the heads: receipts that do not count add nothing."""

    def add(self, receipts: Iterable[StoredReceipt], counting: Mapping[str, ReceiptHead]) -> None:
        """Add those of the receipts that count."""
        for receipt, _ in counting_receipts(receipts, counting):
            self._add(receipt)

    def total(self, metric_id: str, keys: Iterable[ItemKey]) -> MetricValue:
        """A metric of these articles or categories together; 0 for keys without sales."""
        total: Counter[str] = Counter()
        for key in keys:
            total.update(self.parts.get(key, {}))
        return metric(metric_id).numerator.total(total)

    def revenue(self, keys: Iterable[ItemKey]) -> int:
        """The revenue of these articles or categories together, in minor units."""
        return int(self.total(REVENUE, keys) or 0)

    def _add(self, receipt: StoredReceipt) -> None:
        lines: dict[ItemKey, list[LineFacts]] = defaultdict(list)
        self.lines += len(receipt.lines)
        # An unreadable line adds nothing, which shows in the sum.
        for line in parse_lines(receipt.lines):
            key = line.item_id if self.by == "item" else line.category
            lines[key].append(line.facts)
            known = self.names.get(key)
            if known is None or known.offset <= receipt.offset:
                self.names[key] = ItemName(receipt.offset, line.item, line.category)
        for key, facts in lines.items():
            added = load_adding_rules().sum_parts(receipt.kind, facts)
            # A means of payment or a deposit is no sale.
            if not _sales_parts().isdisjoint(added):
                self.currencies.add(receipt.currency)
                self.parts.setdefault(key, Counter()).update(added)


@cache
def _sales_parts() -> frozenset[str]:
    """The parts that revenue, units or receipts are computed from."""
    found: set[str] = set()
    for name in (REVENUE, UNITS, RECEIPTS):
        formula = metric(name).numerator
        # The catalogue has none of another sort for them.
        assert isinstance(formula, WeightedSum)
        found.update(formula.weights)
    return frozenset(found)


class ItemReader:
    """Reads receipts and adds up their lines."""

    def __init__(self, views: ViewReader) -> None:
        self._views = views
        # Each read takes up to ten seconds of a core: more at once would only take longer.
        self._read_slots = asyncio.Semaphore(2)

    async def sums(
        self,
        store_id: str,
        spans: Sequence[TimeRange],
        by: ItemAxis,
    ) -> list[ItemSums]:
        """The sums of the receipts of each span. Raises ViewsUnreachable; BadQuery for too many."""
        found = [ItemSums(by) for _ in spans]
        await self.read(store_id, spans, found)
        return found

    async def read(
        self, store_id: str, spans: Sequence[TimeRange], into: Sequence[ReceiptLines]
    ) -> None:
        """Read the receipts of each span into its consumer. Raises as sums()."""
        for span in spans:
            await self._views.refuse_lost_history(span.start, "receipts")
        async with self._read_slots:
            heads = await self._heads(store_id, spans)
            for span, of_span, lines in zip(spans, heads, into, strict=True):
                await run_in_thread_if_large(len(of_span), lines.add_heads, of_span)
                voids = await self._voids_after(store_id, span)
                counting = await run_in_thread_if_large(len(of_span), first_copies, of_span, voids)
                pieces = await run_in_thread_if_large(len(counting), cut_pieces, counting.values())
                for lot in chunks(pieces, PIECES_AT_ONCE):
                    reads = (self._views.receipts.receipts(store_id, *piece) for piece in lot)
                    for receipts in await asyncio.gather(*reads):
                        # In a thread: the JSON lines of even few receipts take some milliseconds.
                        await ANSWERS.run(lines.add, receipts, counting)
                    read = sum(consumer.lines for consumer in into)
                    _refuse_many(read, MAX_LINES, "lines of receipts")

    async def _heads(self, store_id: str, spans: Sequence[TimeRange]) -> list[Heads]:
        """The heads of each span; they are read first, for they show how much there is to read."""
        receipts, left = self._views.receipts, MAX_RECEIPTS
        found: list[Heads] = []
        for span in spans:
            of_span: Heads = []
            for days in chunks(utc_days(*span), DAYS_AT_ONCE):
                # One more than the limit, to see whether there are more.
                read = (receipts.heads(store_id, day, span, left + 1) for day in days)
                for heads in await asyncio.gather(*read):
                    of_span += heads
                _refuse_many(len(of_span), left, "receipts")
            left -= len(of_span)
            found.append(of_span)
        return found

    async def _voids_after(self, store_id: str, span: TimeRange) -> Heads:
        # Voids within the span are among its receipts already.
        receipts, tomorrow = self._views.receipts, datetime.now(UTC) + timedelta(days=1)
        until = min(span.end + timedelta(days=VOID_DAYS), tomorrow)
        found: Heads = []
        for days in chunks(utc_days(span.end, until), DAYS_AT_ONCE):
            read = (receipts.voids(store_id, day, MAX_RECEIPTS) for day in days)
            for heads in await asyncio.gather(*read):
                found += heads
        return found


def counting_receipts(
    receipts: Iterable[StoredReceipt], counting: Mapping[str, ReceiptHead]
) -> Iterator[tuple[StoredReceipt, ReceiptHead]]:
    """The receipts that count, each with its head."""
    for receipt in receipts:
        head = counting.get(receipt.event_id)
        # Skips another copy of the receipt, and one that arrived after the heads were read.
        if head is not None and head.offset == receipt.offset:
            yield receipt, head


def first_copies(
    heads: Iterable[ReceiptHead], voids: Iterable[ReceiptHead]
) -> dict[str, ReceiptHead]:
    """The receipts that count, by identity: the first copy by offset, as in both layers.

    Of a receipt's versions it has the one that counts in a rebuild (tally/events/receipt_rules.py).
    """
    found: dict[str, ReceiptHead] = {}
    for head in (*heads, *voids):
        if head.offset < found.setdefault(head.event_id, head).offset:
            found[head.event_id] = head
    standing = effective_event_ids(
        ChainEvent(head.event_id, head.happened_at.isoformat(), head.offset)
        for head in found.values()
    )
    return {name: found[name] for name in standing if not adds_nothing(name)}


def cut_pieces(heads: Iterable[ReceiptHead]) -> list[tuple[datetime, datetime]]:
    """The first and last instant of pieces of about PIECE receipts, each within one UTC day."""
    instants = sorted({head.happened_at for head in heads})
    by_day = groupby(instants, key=lambda instant: instant.date())
    pieces = (piece for _, of_day in by_day for piece in chunks([*of_day], PIECE))
    return [(piece[0], piece[-1]) for piece in pieces]


def _refuse_many(count: int, left: int, what: str) -> None:
    if count > left:
        most = MAX_RECEIPTS if what == "receipts" else MAX_LINES
        days = "these days, and those that they are compared with or those since the last count,"
        raise BadQuery("to", f"to: {days} have more than {most:,} {what}; ask for fewer days")
