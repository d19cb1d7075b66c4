"""A POSLog that is too large for one body is cut between its transactions; nothing is lost."""

import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

import msgspec
import pytest

from ingest.contract.vendor import VendorBody
from ingest.gateway.submission import CheckedLines, check_lines, endpoints
from ingest.sources.sales.vendors import poslog as cutting
from ingest.sources.sales.vendors.poslog import messages, parts
from tally.errors import RejectedEvent
from tests.unit.ingest.drop.drop_folder import beside, dropped, handed_over, taken
from tests.unit.ingest.messages import RULES

ARRIVED = datetime(2026, 3, 3, 6, tzinfo=UTC)
HEAD = '<?xml version="1.0"?><POSLog xmlns="http://www.nrf-arts.org/IXRetail/namespace/">'
PATH = "/v1/events/pos/poslog"


def receipt(store: int, number: int, cents: int = 100) -> str:
    return (
        f"<Transaction><BusinessUnit><UnitID>s{store}</UnitID></BusinessUnit>"
        f"<WorkstationID>1</WorkstationID><SequenceNumber>{number}</SequenceNumber>"
        f"<EndDateTime>2026-03-02T10:{number % 60:02}:00Z</EndDateTime>"
        '<RetailTransaction><LineItem><Sale ItemType="Stock"><Description>Käse &amp; Brot'
        f"</Description><ExtendedAmount>{cents / 100:.2f}</ExtendedAmount><Quantity>1</Quantity>"
        "</Sale></LineItem></RetailTransaction></Transaction>\n"
    )


def day_of(stores: int, receipts: int) -> bytes:
    """A head office's file: the day of some stores, one after the other."""
    found = (receipt(store, number) for store in range(stores) for number in range(receipts))
    return f"{HEAD}{''.join(found)}</POSLog>".encode()


def read(content: bytes) -> list[bytes]:
    return [one for one in messages(VendorBody(content, ARRIVED, RULES)) if isinstance(one, bytes)]


def taken_by_the_gateway(content: bytes) -> CheckedLines:
    endpoint = next(one for one in endpoints() if one.path == PATH)
    return check_lines(VendorBody(content, ARRIVED, RULES), endpoint)


def test_a_day_of_65_stores_is_bodies_that_the_gateway_takes() -> None:
    file = day_of(65, 15)
    found = [*parts(BytesIO(file))]

    bodies = [one.content for one in found]
    assert [one.events_before for one in found] == [0, *_sums(bodies)][:-1]
    assert len(bodies) > 1 and max(map(len, bodies)) < 5_000_000
    assert [message for body in bodies for message in read(body)] == read(file)
    counts = [taken_by_the_gateway(body) for body in bodies]
    assert [len(one.accepted) for one in counts] == [len(read(body)) for body in bodies]
    assert sum(len(one.accepted) for one in counts) == 975
    assert not any(one.rejected_count for one in counts)


def _sums(bodies: list[bytes]) -> Iterator[int]:
    total = 0
    for body in bodies:
        total += len(read(body))
        yield total


def test_dropped_file_goes_in_parts_and_a_small_one_as_it_was_written(tmp_path: Path) -> None:
    small, large = day_of(2, 3), day_of(65, 15)
    dropped(tmp_path, "pos/poslog/small.xml", small)
    dropped(tmp_path, "pos/poslog/large.xml", large)

    summary, seen = handed_over(tmp_path, taken)

    assert (summary["taken"], summary["refused"]) == (2, 0)
    contents = [one.content for one in seen]
    assert small in contents and len(contents) > 2
    assert len({message for body in contents for message in read(body)}) == 975


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (day_of(65, 15)[:-4_000], "no XML"),
        (b"<POSLog/>", "no Transaction"),
        (b'<!DOCTYPE x [<!ENTITY a "b">]><POSLog><Transaction/></POSLog>', "DTD"),
        (b"", "no XML"),
    ],
)
def test_file_that_cannot_be_read_to_its_end_is_refused_with_the_reason(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    dropped(tmp_path, "pos/poslog/day.xml", content)

    summary, _ = handed_over(tmp_path, taken)

    assert summary["refused"] == 1
    assert reason in beside(tmp_path, "*.refused.json")["detail"]
    with pytest.raises(RejectedEvent):
        read(content)


def test_memory_hangs_on_the_largest_part_and_not_on_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cutting, "_MAX_BYTES", 20_000)

    def most(content: bytes) -> int:
        """Bytes that reading the parts has taken at most."""
        tracemalloc.start()
        sizes = [len(part.content) for part in parts(BytesIO(content))]
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(sizes) > 2
        return peak

    small, large = day_of(2, 100), day_of(2, 800)
    # The content is copied once; a tree of the whole would take many times as much.
    assert most(large) - most(small) < len(large)


def test_root_transaction_is_a_body_of_itself() -> None:
    content = receipt(1, 7).encode()

    (part,) = parts(BytesIO(content))

    assert read(part.content) == read(content)
    assert msgspec.json.decode(read(content)[0])["transaction_id"] == "7"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("<Batch ID='1'>", "</Batch><Batch ID='2'/>"),
        ("<Envelope><Body><Other>1</Other>", "</Body></Envelope>"),
    ],
)
def test_transactions_count_wherever_they_stand(before: str, after: str) -> None:
    content = f"{HEAD}{receipt(1, 7)}{before}{receipt(1, 8)}{receipt(1, 9)}{after}{receipt(1, 10)}"
    file = f"{content}</POSLog>".encode()

    numbers = [msgspec.json.decode(message)["transaction_id"] for message in read(file)]
    (part,) = parts(BytesIO(file))

    assert numbers == ["7", "8", "9", "10"]
    assert read(part.content) == read(file)


def test_roundings_within_each_other_are_read_once() -> None:
    deep = "<Rounding>0.02" * 5_000 + "</Rounding>" * 5_000
    tender = f"<LineItem><Tender><Amount>1.00</Amount>{deep}</Tender></LineItem>"
    content = receipt(1, 7).replace("</RetailTransaction>", f"{tender}</RetailTransaction>")

    (message,) = read(content.encode())

    types = [line.get("line_type") for line in msgspec.json.decode(message)["transactions"]]
    assert types == ["item", "rounding"]
