"""Records of the receipts of one store, and their first copies in a dictionary."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from hashlib import blake2b

from hypothesis import strategies as st

from batch_layer.links.header import RecordHeader
from tally.events.identity import (
    cancellation_id,
    correction_id,
    event_id,
    reversal_id,
    version_id,
)

DAY_MICROS, QUARTER_MICROS = 86_400 * 10**6, 900 * 10**6
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
            key=lambda header: (header.day, _hash(header.event_id)),
        )

    def put(self, receipt: str, header: RecordHeader) -> None:
        self.by_receipt[header.store_id, receipt][header.event_id] = header


def _hash(name: str) -> bytes:
    # Of many receipts of one name, two are linked: those of the lowest hashes on the earliest day.
    return blake2b(name.encode(), digest_size=16).digest()


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
    numbers.map(lambda number: cancellation_id(receipt_id(number), DIGESTS[0])),
    st.builds(
        lambda number, until: reversal_id(receipt_id(number), until),
        numbers,
        st.sampled_from((None, 1)),
    ),
    st.builds(lambda name: reversal_id(event_id("reference", "1", name)), st.sampled_from(NAMES)),
)
records = st.builds(
    lambda identity, content, day, quarter, names: RecordHeader(
        "1", identity, content, day, day * DAY_MICROS + quarter * QUARTER_MICROS, 0, 0, 0, names
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
