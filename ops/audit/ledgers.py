"""The conservation ledger, from what Kafka, the master dataset and the views hold."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cassandra.cluster import Session

from ops.audit.against_master import generation_differences
from ops.audit.cut import Cut, take_cut
from ops.audit.read.master import Fates, Master, WindowKey
from ops.audit.read.served import read_claims, speed_windows
from ops.audit.read.topics import DeadLetterOrigin, count_committed_records, dead_letters
from ops.conflicts import TillConflicts, till_conflicts
from ops.oracle.complete_journey import Scope
from runtime.records.gaps import AcceptedGap, read_gaps
from runtime.registry.sources import FAMILIES
from runtime.registry.visit_rules import load_families
from schemas.loader import topics
from tally.config.settings import Settings
from tally.events.ledger import CanonicalLedger, RawLedger, late_pending
from tally.families.family import Family


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
            fate = fates.get(number, Fates())
            sums = {
                "counted": fate.counted,
                "duplicate": fate.duplicate,
                "conflict": fate.conflict,
                "unreadable": fate.unreadable,
            }
            lines.append(
                CanonicalLedger(
                    family.topic, number, span.committed, rows.get(number, 0), erased=0, **sums
                )
            )
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
