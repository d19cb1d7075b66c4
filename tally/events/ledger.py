"""The conservation ledger: for each topic-partition, where every committed record went."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RawLedger:
    """Raw topic-partition: committed = canonical + dead_letter.

    `canonical` counts raw records that became canonical ones; `splits` counts the additional
    canonical records of intervals that touch several windows.
    """

    topic: str
    partition: int
    committed: int
    canonical: int
    dead_letter: int
    splits: int = 0

    @property
    def difference(self) -> int:
        """Records without a fate; 0 when the ledger holds."""
        return self.committed - self.canonical - self.dead_letter


@dataclass(frozen=True)
class CanonicalLedger:
    """Committed = counted + duplicate + conflict + erased + unreadable; master: each once."""

    topic: str
    partition: int
    committed: int
    master: int
    counted: int
    duplicate: int
    conflict: int
    erased: int
    unreadable: int

    @property
    def difference(self) -> int:
        """Records without a fate; 0 when the ledger holds."""
        left_out = self.duplicate + self.conflict + self.erased + self.unreadable
        return self.committed - self.counted - left_out

    @property
    def holds(self) -> bool:
        """Whether every record has one fate and the master holds exactly the committed ones."""
        return self.difference == 0 and self.master == self.committed


def late_pending(batch_events: int, speed_events: int) -> int:
    """Events of one (store, window) that batch has counted and the speed layer dropped as late."""
    return max(0, batch_events - speed_events)
