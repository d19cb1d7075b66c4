"""The conservation ledger, from what Kafka, the master dataset and the views hold now."""

from collections import Counter
from dataclasses import dataclass

from cassandra.cluster import Session

from ops.audit.master import Master
from ops.audit.served import Key, batch_windows, speed_windows
from ops.audit.topics import DeadLetter, committed_counts, dead_letters
from ops.oracle.complete_journey import Scope
from schemas.loader import topics
from tally.families import FAMILIES, SALES
from tally.ledger import CanonicalLedger, RawLedger, late_pending
from tally.settings import Settings


@dataclass(frozen=True)
class Ledgers:
    """Every ledger line, and beside them what the speed layer does not (yet) show.

    late_pending: events of sales that the master holds and the speed rows lack; unserved: the same of the published
    generation and the speed rows together, 0 after a rebuild that covers everything. Both over `windows` windows.
    """

    raw: list[RawLedger]
    canonical: list[CanonicalLedger]
    dead_letters: dict[str, int]
    events: int
    windows: int
    late_pending: int
    unserved: int

    @property
    def ok(self) -> bool:
        """Whether every committed record has exactly one fate and the master holds each once."""
        return all(line.difference == 0 for line in self.raw) and all(line.holds for line in self.canonical)


def read_ledgers(settings: Settings, session: Session) -> Ledgers:
    """The ledgers of all topic-partitions as they stand."""
    master, letters = Master(settings), dead_letters(settings)
    considered = master.window_events(SALES.name)
    pending, unserved = _pending(session, considered)
    return Ledgers(
        raw=_raw_ledgers(settings, master, letters),
        canonical=_canonical_ledgers(settings, master),
        dead_letters=dict(sorted(Counter(letter.reason for letter in letters).items())),
        events=sum(considered.values()),
        windows=len(considered),
        late_pending=pending,
        unserved=unserved,
    )


def _raw_ledgers(settings: Settings, master: Master, letters: set[DeadLetter]) -> list[RawLedger]:
    raw_topic = {name: topics()[name]["raw"] for name in FAMILIES}
    dead = Counter((letter.topic, letter.partition) for letter in letters)
    canonical = master.canonical_of_raw()
    return [
        RawLedger(topic, partition, committed, canonical.get((family, partition), 0), dead[topic, partition])
        for family, topic in raw_topic.items()
        for partition, committed in committed_counts(settings, topic).items()
    ]


def _canonical_ledgers(settings: Settings, master: Master) -> list[CanonicalLedger]:
    fates, rows = master.fates(), master.rows()
    lines = []
    for family in FAMILIES.values():
        for partition, committed in committed_counts(settings, family.topic).items():
            fate = fates.get((family.name, partition))
            counted, duplicate, conflict = (fate.counted, fate.duplicate, fate.conflict) if fate else (0, 0, 0)
            held = rows.get((family.name, partition), 0)
            lines.append(CanonicalLedger(family.topic, partition, committed, held, counted, duplicate, conflict, erased=0))
    return lines


def _pending(session: Session, considered: dict[Key, int]) -> tuple[int, int]:
    """(late_pending, unserved) over all windows of sales."""
    whole = Scope()
    speed = {key: state.events for key, state in speed_windows(session, whole).items()}
    batch = {key: state.events for key, state in batch_windows(session, whole).items()}
    pending = sum(late_pending(events, speed.get(key, 0)) for key, events in considered.items())
    unserved = sum(late_pending(events, max(speed.get(key, 0), batch.get(key, 0))) for key, events in considered.items())
    return pending, unserved
