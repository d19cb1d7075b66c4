"""The index on a disk is the dictionary that the law of links is tried with."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings

from batch_layer.links.first_copies import FirstCopyIndex
from batch_layer.links.header import RecordHeader, strip_zeros
from batch_layer.links.linker import link_records
from tally.events.identity import event_id
from tests.laws.master.receipts import DAYS, NAMES, NUMBERS, Known, histories, placed, receipt_id

History = list[list[RecordHeader]]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[FirstCopyIndex]:
    with FirstCopyIndex.open(tmp_path) as opened:
        yield opened


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(histories)
def test_both_bring_the_same_links_and_know_the_same(history: History) -> None:
    known = Known()
    receipts = {strip_zeros(receipt_id(number)) for number in NUMBERS}
    with TemporaryDirectory() as folder, FirstCopyIndex.open(Path(folder)) as index:
        for batch in placed(history):
            wanted = link_records(known, batch)
            with index.changing() as copies:
                found = link_records(copies, batch)
            assert (found.headers, found.until) == (wanted.headers, wanted.until)
        with index.changing() as copies:
            for receipt in receipts:
                assert copies.members("1", receipt) == known.members("1", receipt)
            for name in NAMES:
                called = event_id("reference", "1", name)
                for days in (range(3), range(1, 34), range(DAYS[-1] + 1)):
                    assert {*copies.called("1", called, days)} == {*known.called("1", called, days)}


def test_nothing_of_a_change_that_failed_is_there(index: FirstCopyIndex) -> None:
    header = RecordHeader("1", receipt_id("7"), "f", 0, 0, 0, 0, 0)
    with pytest.raises(KeyboardInterrupt), index.changing() as copies:
        copies.put(header.event_id, header)
        copies.put_until({0: 1})
        raise KeyboardInterrupt

    with index.changing() as copies:
        assert copies.members("1", header.event_id) == {}
    assert index.until() == {}


def test_until_is_by_partition_and_stays(index: FirstCopyIndex) -> None:
    with index.changing() as copies:
        copies.put_until({0: 5, 3: 2**40})
    with index.changing() as copies:
        copies.put_until({0: 7})

    assert index.until() == {0: 7, 3: 2**40}
