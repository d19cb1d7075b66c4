"""A day's own records and the headers that are linked to it give its records the fates that all
records together give them; and a day whose records' fates change is named."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from batch_layer.links.header import RecordHeader, strip_zeros
from batch_layer.links.linker import Links, link_records
from tally.events.identity import correction_id, event_id, reversal_id, version_id
from tests.controls.batch.links import WRONG_LINKERS
from tests.support.oracles.record_fates import Fate, Place, fates

DAY_MICROS = 86_400 * 10**6
DAYS = (0, 1, 2, 32, 33, 80)
NUMBERS, NAMES = ("7", "007", "8"), ("a", "b")
DIGESTS = ("0" * 32, "1" * 32)


class Known:
    """First copies in a dictionary."""

    def __init__(self) -> None:
        self.by_receipt: defaultdict[tuple[str, str], dict[str, RecordHeader]] = defaultdict(dict)

    def members(self, store_id: str, receipt: str) -> Mapping[str, RecordHeader]:
        return dict(self.by_receipt.get((store_id, receipt), {}))

    def called(self, store_id: str, name: str, days: range) -> Iterator[RecordHeader]:
        all_of_them = (header for known in self.by_receipt.values() for header in known.values())
        yield from sorted(
            (
                header
                for header in all_of_them
                if header.store_id == store_id and name in header.called and header.day in days
            ),
            key=lambda header: (header.day, header.event_id),
        )

    def put(self, receipt: str, header: RecordHeader) -> None:
        self.by_receipt[header.store_id, receipt][header.event_id] = header


def receipt_id(number: str) -> str:
    return event_id("pos", "1", "1", "0", number)


numbers = st.sampled_from(NUMBERS)
identities = st.one_of(
    numbers.map(receipt_id),
    st.builds(
        lambda number, revision: version_id(receipt_id(number), revision),
        numbers,
        st.integers(1, 2),
    ),
    st.builds(
        lambda number, digest: correction_id(receipt_id(number), digest),
        numbers,
        st.sampled_from(DIGESTS),
    ),
    st.builds(
        lambda number: correction_id(receipt_id(number), "0" * 32).replace("+", "-"), numbers
    ),
    st.builds(
        lambda number, until: reversal_id(receipt_id(number), until),
        numbers,
        st.sampled_from((None, 1)),
    ),
    st.builds(lambda name: reversal_id(event_id("reference", "1", name)), st.sampled_from(NAMES)),
)
records = st.builds(
    lambda identity, content, day, quarter, names: RecordHeader(
        "1", identity, content, day, day * DAY_MICROS + quarter * 900 * 10**6, 0, 0, 0, names
    ),
    identities,
    st.sampled_from(("f", "g", "h.c", "i.c")),
    st.sampled_from(DAYS),
    st.integers(0, 2),
    st.lists(st.sampled_from(NAMES), max_size=2, unique=True).map(tuple),
)
histories = st.lists(st.lists(records, min_size=1, max_size=4), max_size=8)


def placed(history: list[list[RecordHeader]]) -> Iterator[list[RecordHeader]]:
    """The batches of a history, with offsets in their order."""
    offset = 0
    for batch in history:
        found = []
        for record in batch:
            names = () if record.position.is_void else record.names
            fields = (record.store_id, record.event_id, record.fingerprint, record.day)
            found.append(RecordHeader(*fields, record.happened_at, offset, 0, offset, names))
            offset += 1
        yield found


def explain_history(history: list[list[RecordHeader]], link=link_records) -> str:
    """What is wrong with the links of a history; empty for nothing."""
    known, noted = Known(), Links()
    held: list[RecordHeader] = []
    published: dict[int, dict[Place, Fate]] = {}
    for batch in placed(history):
        links = link(known, batch)
        held += batch
        for day, headers in links.headers.items():
            noted.headers[day] |= headers
        whole = fates(held)
        dirty = {record.day for record in batch} | {day for day, _ in links.until}
        for day in {record.day for record in held}:
            own = [record for record in held if record.day == day]
            alone = fates([*own, *noted.headers[day]])
            wanted = {record.place: whole[record.place] for record in own}
            if {place: alone[place] for place in wanted} != wanted:
                return f"day {day}: {alone} and not {wanted}"
            if day not in dirty and published[day] != wanted:
                return f"day {day} has changed and is not dirty"
            published[day] = wanted
    return ""


@settings(max_examples=1_000, suppress_health_check=[HealthCheck.too_slow])
@given(histories)
def test_day_alone_with_its_links_knows_its_fates(history: list[list[RecordHeader]]) -> None:
    assert explain_history(history) == ""


@given(histories)
def test_records_that_come_again_bring_the_same_links(history: list[list[RecordHeader]]) -> None:
    known = Known()
    for batch in placed(history):
        links = link_records(known, batch)
        again = link_records(known, batch)
        assert all(links.headers[day] <= again.headers[day] for day in [*links.headers])
        assert links.until.items() <= again.until.items()


@pytest.mark.parametrize("name", WRONG_LINKERS)
def test_a_wrong_linker_is_found(name: str) -> None:
    try:
        find(
            histories,
            lambda history: explain_history(history, WRONG_LINKERS[name]) != "",
            settings=settings(max_examples=5_000, database=None),
        )
    except NoSuchExample:
        pytest.fail("no history shows what is wrong with it")


def test_strips_zeros_as_the_rules_do() -> None:
    assert strip_zeros("pos:1:1:0:007") == "pos:1:1:0:7"
