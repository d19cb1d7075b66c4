"""The conservation ledger, from what Kafka, the master dataset and the views hold.

The end offsets up to which it counts are read first, so records that arrive during the audit make
no difference.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from cassandra.cluster import Session

from ops.audit.against_master import generation_differences
from ops.audit.read.master import Fates, Master, WindowKey
from ops.audit.read.served import read_claims, speed_windows
from ops.audit.read.topics import DeadLetterOrigin, count_committed_records, dead_letters
from ops.conflicts import TillConflicts, till_conflicts
from ops.oracle.complete_journey import Scope
from runtime.connect import NORMALISER_GROUP, UNCOMMITTED, kafka_consumer
from runtime.kafka.offsets import TopicOffsets, find_unread, flatten_offsets
from runtime.kafka.topics import PartitionId, read_ends, read_group_positions
from runtime.records.dead_letter import TOPIC as DEAD_LETTERS
from runtime.records.gaps import AcceptedGap, read_gaps
from runtime.registry.sources import FAMILIES
from runtime.registry.visit_rules import load_families
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
    """End offsets of the raw topics at one moment, and of the canonical topics after it.

    The canonical ends are read once the normaliser has passed the raw ones.
    """

    raw: TopicOffsets
    canonical: TopicOffsets


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
        """Whether every committed record has exactly one fate, and the sums agree.

        The master holds each record once, and the generations hold their sums.
        """
        return (
            # late_pending is not checked: the batch layer counts what the speed layer dropped.
            all(line.difference == 0 for line in self.raw)
            and all(line.holds for line in self.canonical)
            and self.unserved == 0
        )


def read_ledgers(settings: Settings, session: Session) -> Ledgers:
    """The ledgers of all topic-partitions, for the records that Kafka still keeps.

    Records that arrive after the call are not counted.
    """
    cut = take_cut(settings, session)
    # The claims are read before the master is opened, so that it holds everything they cover.
    families = load_families(settings)
    claims = {name: read_claims(session, family) for name, family in families.items()}
    master, letters = Master(settings), dead_letters(settings)
    considered = {name: master.window_events(name) for name in FAMILIES}
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
        left_out=_left_out_by_rule(master),
        waiting=sum(len(master.waiting_voids(name)) for name in FAMILIES),
        gaps=read_gaps(session),
        tills=[till for till in till_conflicts(session) if till.is_open],
    )


def take_cut(settings: Settings, session: Session) -> Cut:
    """The cut of now, returned once the master holds all of it.

    After a timeout it is returned anyway: records that are still missing then are a difference.
    """
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
    """The end offset of each partition: the first offset that a reader cannot have yet.

    Readers see committed records, unless the consumer's overrides change the isolation level.
    """
    with kafka_consumer(settings, "audit", overrides) as consumer:
        return read_ends(consumer, names, _TIMEOUT_SECONDS)


def _normaliser_positions(settings: Settings, raw: TopicOffsets) -> Mapping[PartitionId, int]:
    # This consumer uses the group's name without joining it: its partitions stay assigned.
    with kafka_consumer(settings, NORMALISER_GROUP) as consumer:
        return read_group_positions(consumer, flatten_offsets(raw), _TIMEOUT_SECONDS)


def _master_positions(session: Session) -> Mapping[PartitionId, int]:
    rows = session.execute("SELECT family, partition, until FROM master_position")
    return {(row.family, row.partition): row.until for row in rows}


def _left_out_by_rule(master: Master) -> dict[str, int]:
    found: Counter[str] = Counter()
    for name in FAMILIES:
        found.update(master.left_out(name))
    return dict(found)


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
        coordinates = {
            (letter.partition, letter.offset) for letter in letters if letter.topic == topic
        }
        dead = Counter(
            number
            for number, offset in coordinates
            if spans[number].first <= offset < spans[number].until
        )
        for number, span in spans.items():
            raw, records = canonical.get(number, (0, 0))
            lines.append(
                RawLedger(topic, number, span.committed, raw, dead[number], splits=records - raw)
            )
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
