"""The real receipts as messages, read back by the normaliser, against the independent
computation."""

from collections import Counter
from datetime import UTC, date, datetime

from ingest.senders.replay.complete_journey import Extent, ReplayScope, extent, receipts
from ingest.senders.replay.perturbation import CORRUPTIONS
from ops.oracle import Scope as OracleScope
from ops.oracle import Totals, window_totals
from tally.errors import RejectedEvent
from tally.time.instants import parse_instant
from tally.time.windows import window_start
from tests.unit.ingest.messages import receipt

WEEK = ReplayScope(date(2017, 3, 1), date(2017, 3, 8))


def test_whole_year_has_this_extent() -> None:
    assert extent(ReplayScope()) == Extent(
        155_848,
        datetime(2017, 1, 1, 11, 53, 26, tzinfo=UTC),
        datetime(2018, 1, 1, 4, 1, 20, tzinfo=UTC),
    )


def test_normalised_week_equals_the_oracle_in_every_window() -> None:
    receipts_by, cents, units = (
        Counter[tuple[str, datetime]](),
        Counter[tuple[str, datetime]](),
        Counter[tuple[str, datetime]](),
    )
    for source in receipts(WEEK):
        made = receipt(source.message)
        window = made.store_id, window_start(parse_instant(made.happened_at, ""))
        receipts_by[window] += made.receipts
        cents[window] += made.gross_minor - made.discounts_minor - made.returns_minor
        units[window] += made.units_milli

    ours = {
        window: Totals(receipts_by[window], cents[window], units[window]) for window in receipts_by
    }
    assert ours == window_totals(OracleScope(first=date(2017, 3, 1), last=date(2017, 3, 7)))


def test_receipts_come_in_order_and_only_of_the_stores_asked_for() -> None:
    found = list(receipts(ReplayScope(date(2017, 3, 1), date(2017, 3, 3), ("367", "406"))))

    assert [one.happened_at for one in found] == sorted(one.happened_at for one in found)
    assert {one.store_id for one in found} == {"367", "406"}


def test_each_bad_message_shows_the_reason_it_is_made_for() -> None:
    good = next(receipts(WEEK)).message
    shown = {}
    for reason, spoil in CORRUPTIONS.items():
        try:
            receipt(spoil(good))
        except RejectedEvent as error:
            shown[reason] = error.reason

    assert shown == {reason: reason for reason in CORRUPTIONS}
