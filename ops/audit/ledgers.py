"""The conservation ledger of Kafka, master and views, up to end offsets that are read first."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from cassandra.cluster import Session

from ops.audit.against_master import generation_differences
from ops.audit.master import Fates, Master, OffsetSpan, WindowKey
from ops.audit.served import read_claims, speed_windows
from ops.conflicts import TillConflicts, till_conflicts
from ops.oracle import Scope
from runtime.connect import NORMALISER_GROUP, UNCOMMITTED, kafka_consumer
from runtime.kafka.offsets import TopicOffsets, find_unread, flatten_offsets
from runtime.kafka.reader import read_to_end
from runtime.kafka.topics import PartitionId, read_ends, read_group_positions
from runtime.records.dead_letter import TOPIC as DEAD_LETTERS
from runtime.records.dead_letter import read_letters
from runtime.records.gaps import AcceptedGap, read_gaps
from runtime.registry.sources import FAMILIES
from runtime.registry.stores import load_families
from schemas.loader import topics
from tally.config.settings import Settings
from tally.events.ledger import CanonicalLedger, RawLedger, late_pending
from tally.families.family import Family

_TIMEOUT_SECONDS = 30.0
_POLL_SECONDS = 0.5
# Added to the time between two appends to the master: it covers the normaliser's transaction and
# the append itself.
_GRACE_SECONDS = 30.0


@dataclass(frozen=True)
class Cut:
    """End offsets of the raw topics, and of the canonical ones once the normaliser passed these."""

    raw: TopicOffsets
    canonical: TopicOffsets


@dataclass(frozen=True)
class DeadLetterOrigin:
    """One dead letter: its reason, and the coordinates of the original record."""

    reason: str
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True)
class Ledgers:
    """All ledger lines, and counts of what the views do not show (yet).

    late_pending: events that the master holds and the speed rows lack, of `events` events in
    `windows` windows. unserved: windows of published generations that are not what the master
    holds up to their pins: 0. left_out: records that add nothing, by the rule that excludes them.
    waiting: voids whose receipt has not arrived. All counts are over all families.
    """

    raw: list[RawLedger]
    canonical: list[CanonicalLedger]
    dead_letters: dict[str, int]
    events: int
    windows: int
    late_pending: int
    left_out: dict[str, int]
    waiting: int
    unserved: int
    gaps: Sequence[AcceptedGap]
    tills: Sequence[TillConflicts]

    @property
    def ok(self) -> bool:
        """Whether every committed record has exactly one fate, and the sums of all layers agree."""
        # late_pending is not checked: the batch layer counts what the speed layer dropped.
        is_whole = not any(line.difference for line in self.raw)
        return is_whole and all(line.holds for line in self.canonical) and self.unserved == 0


def read_ledgers(settings: Settings, session: Session) -> Ledgers:
    """The ledgers of all partitions, of the records that Kafka still keeps at the call."""
    cut = take_cut(settings, session)
    # The claims are read before the master is opened, so that it holds everything they cover.
    families = load_families(settings)
    claims = {name: read_claims(session, family) for name, family in families.items()}
    master, letters = Master(settings), dead_letters(settings)
    considered = {name: master.window_events(name) for name in FAMILIES}
    left_out = (Counter(master.left_out(name)) for name in FAMILIES)
    return Ledgers(
        raw=_raw_ledgers(settings, master, letters, cut),
        canonical=_canonical_ledgers(settings, master, cut),
        dead_letters=dict(sorted(Counter(letter.reason for letter in letters).items())),
        events=sum(sum(windows.values()) for windows in considered.values()),
        windows=sum(map(len, considered.values())),
        late_pending=sum(
            _late_pending(session, FAMILIES[name], windows) for name, windows in considered.items()
        ),
        unserved=sum(
            len(generation_differences(session, master, families[name], published))
            for name, published in claims.items()
        ),
        left_out=dict(sum(left_out, Counter[str]())),
        waiting=sum(len(master.waiting_voids(name)) for name in FAMILIES),
        gaps=read_gaps(session),
        tills=[till for till in till_conflicts(session) if till.is_open],
    )


def take_cut(settings: Settings, session: Session) -> Cut:
    """The cut of now, once the master holds it; also after a timeout: the rest is a difference."""
    deadline = time.monotonic() + settings.ingest_trigger_seconds + _GRACE_SECONDS
    # The ends are read one after the other: if all were read at one moment, records on their way
    # through the normaliser would be in neither ledger.
    raw = _ends(settings, [topics()[family]["raw"] for family in FAMILIES])
    _wait_until_read(raw, lambda: _normaliser_positions(settings, raw), deadline)
    # The normaliser has written these by now; readers of committed records may see them later.
    written = _ends(settings, [*FAMILIES, DEAD_LETTERS], UNCOMMITTED)
    _wait_until_read(written, lambda: flatten_offsets(_ends(settings, written)), deadline)
    canonical = {family: written[family] for family in FAMILIES}
    _wait_until_read(canonical, lambda: _master_positions(session), deadline)
    return Cut(raw, canonical)


def _wait_until_read(
    ends: TopicOffsets, read: Callable[[], Mapping[PartitionId, int]], deadline: float
) -> None:
    while find_unread(flatten_offsets(ends), read()) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def _ends(
    settings: Settings, names: Iterable[str], overrides: Mapping[str, str] | None = None
) -> TopicOffsets:
    """The end offset of each partition; of committed records unless the overrides change it."""
    with kafka_consumer(settings, "audit", overrides) as consumer:
        return read_ends(consumer, names, _TIMEOUT_SECONDS)


def _normaliser_positions(settings: Settings, raw: TopicOffsets) -> Mapping[PartitionId, int]:
    # This consumer uses the group's name without joining it: its partitions stay assigned.
    with kafka_consumer(settings, NORMALISER_GROUP) as consumer:
        return read_group_positions(consumer, flatten_offsets(raw), _TIMEOUT_SECONDS)


def _master_positions(session: Session) -> Mapping[PartitionId, int]:
    rows = session.execute("SELECT family, partition, until FROM master_position")
    return {(row.family, row.partition): row.until for row in rows}


def _raw_ledgers(
    settings: Settings, master: Master, letters: set[DeadLetterOrigin], cut: Cut
) -> list[RawLedger]:
    lines = []
    for family in FAMILIES:
        topic = topics()[family]["raw"]
        spans = count_committed_records(settings, topic, cut.raw[topic])
        canonical = master.count_canonical_by_raw(family, spans)
        # A letter may have been sent twice. It is retained for months, the raw record for a day, so
        # letters of deleted records must not be counted.
        places = {(letter.partition, letter.offset) for letter in letters if letter.topic == topic}
        dead = Counter(
            number
            for number, offset in places
            if spans[number].first <= offset < spans[number].until
        )
        for number, span in spans.items():
            raw, records = canonical.get(number, (0, 0))
            counts = span.committed, raw, dead[number]
            lines.append(RawLedger(topic, number, *counts, splits=records - raw))
    return lines


def _canonical_ledgers(settings: Settings, master: Master, cut: Cut) -> list[CanonicalLedger]:
    lines = []
    for family in FAMILIES.values():
        spans = count_committed_records(settings, family.topic, cut.canonical[family.topic])
        fates, rows = master.fates(family.name, spans), master.rows(family.name, spans)
        for number, span in spans.items():
            fate, row_count = fates.get(number, Fates()), rows.get(number, 0)
            line = (family.topic, number, span.committed, row_count)
            lines.append(CanonicalLedger(*line, erased=0, **asdict(fate)))
    return lines


def _late_pending(session: Session, family: Family, considered: Mapping[WindowKey, int]) -> int:
    # Speed rows of presences hold the offset they have read, not the number of events.
    if family.reading is not None:
        return 0
    speed = speed_windows(session, Scope(), family)
    return sum(
        late_pending(events, speed[key].events if key in speed else 0)
        for key, events in considered.items()
    )


def count_committed_records(
    settings: Settings, topic: str, until: Mapping[int, int]
) -> dict[int, OffsetSpan]:
    """The committed records before the offsets, counted by reading: markers do not count."""
    counts: Counter[int] = Counter()
    firsts: dict[int, int] = {}
    for message in read_to_end(settings, [topic]):
        partition, offset = int(message.partition() or 0), int(message.offset() or 0)
        if offset < until.get(partition, 0):
            counts[partition] += 1
            # The offset of the first record read: Kafka's first offset may be a transaction marker,
            # and the first record then lies after it.
            firsts.setdefault(partition, offset)
    return {
        partition: OffsetSpan(firsts.get(partition, end), end, counts[partition])
        for partition, end in until.items()
    }


def dead_letters(settings: Settings) -> set[DeadLetterOrigin]:
    """The distinct dead letters: a duplicate has the same coordinates and reason."""
    return {
        DeadLetterOrigin(letter.reason, *letter.place)
        # Iterated lazily, so that the payloads of the originals are not all in memory together.
        for letter in read_letters(settings)
    }
