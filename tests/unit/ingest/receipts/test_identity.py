"""No two events share an identity, whatever their parts hold."""

from urllib.parse import unquote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ingest.sources.sales.versions import receipt_id
from tally.errors import RejectedEvent
from tally.events.identity import interval_id
from tests.unit.ingest.messages import TRAFFIC, interval, pos, receipt

PART = st.from_regex(r"[0:%.a]{1,6}", fullmatch=True)
PARTS = st.tuples(PART, PART, PART, PART)
# One text, cut differently: what was one identity and one fingerprint.
CUT_DIFFERENTLY = [("1", "0", "0:42"), ("1", "0:0", "42"), ("1:0", "0", "42")]


@given(PARTS, PARTS)
def test_two_receipts_share_an_id_only_if_all_their_parts_are_equal(
    one: tuple[str, ...], other: tuple[str, ...]
) -> None:
    assert (receipt_id(*one) == receipt_id(*other)) == (one == other)


@given(PARTS)
def test_the_parts_of_an_id_can_be_read_again(parts: tuple[str, ...]) -> None:
    assert tuple(unquote(part) for part in receipt_id(*parts).split(":")) == ("pos", *parts)


@given(PART, PART, PART, PART)
def test_two_intervals_share_an_id_only_if_all_their_parts_are_equal(
    store: str, device: str, other_store: str, other: str
) -> None:
    assume((store, device) != (other_store, other))
    at = "2017-09-19T22:45:00.000Z"

    assert interval_id("x", store, device, at) != interval_id("x", other_store, other, at)


def test_receipts_whose_parts_are_cut_differently_are_different_receipts() -> None:
    made = [
        receipt(pos(vendor_fiscal_module=till, numbering_epoch=epoch, transaction_id=number))
        for till, epoch, number in CUT_DIFFERENTLY
    ]

    assert (
        len({one.event_id for one in made})
        == len({one.fingerprint for one in made})
        == len(CUT_DIFFERENTLY)
    )


@pytest.mark.parametrize("field", ["operation_id", "vendor_fiscal_module", "numbering_epoch"])
@pytest.mark.parametrize("name", [".", ".."])
def test_dot_and_dot_dot_are_no_ids(field: str, name: str) -> None:
    with pytest.raises(RejectedEvent) as rejected:
        receipt(pos(**{field: name}))

    assert (rejected.value.reason, rejected.value.field) == ("out_of_range", f"/{field}")
    assert receipt(pos(**{field: "..."})).receipts == 1


def test_a_device_with_a_colon_keeps_its_own_id() -> None:
    assert (
        interval({**TRAFFIC, "device_id": "a:b"}).event_id
        == "traffic:367:a%3Ab:2017-09-19T22:45:00.000Z"
    )
