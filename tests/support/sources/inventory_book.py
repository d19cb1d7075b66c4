"""Another system that keeps stock, as far as calls can tell: levels, versions, keys, references.

It keeps a log of all that it has applied, which no call asks for: what came of each movement.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

OTHERS = "others"


class ToldBy(NamedTuple):
    """What a look tells: thousandths, and the version."""

    quantity: int
    version: str


class AppliedChange(NamedTuple):
    """A change that was applied: whose, to which article, and what there was behind it."""

    movement_id: str
    lane: str
    level: int


@dataclass
class InventoryBook:
    """Levels by lane; `log` has every change in its order."""

    levels: Counter[str] = field(default_factory=Counter)
    versions: Counter[str] = field(default_factory=Counter)
    keys: set[str] = field(default_factory=set)
    references: set[str] = field(default_factory=set)
    log: list[AppliedChange] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)

    def look(self, lane: str) -> ToldBy:
        """What there is."""
        return ToldBy(self.levels[lane], f"v{self.versions[lane]}")

    def adjust(self, movement_id: str, lane: str, delta: int, key: str | None) -> None:
        """Change by an amount; under a key once."""
        if key is not None and key in self.keys:
            return
        if key is not None:
            self.keys.add(key)
        self._write(movement_id, lane, self.levels[lane] + delta)

    def put(self, movement_id: str, lane: str, level: int, key: str | None = None) -> None:
        """Set a level, whatever there is; under a key once."""
        self.adjust(movement_id, lane, level - self.levels[lane], key)

    def put_if(self, movement_id: str, lane: str, level: int, version: str) -> bool:
        """Set a level if the version still holds: whether it does."""
        if version != self.look(lane).version:
            return False
        self.references.add(movement_id)
        self._write(movement_id, lane, level)
        return True

    def write_by_others(self, lane: str, delta: int) -> None:
        """Somebody else changes a level."""
        self.others[lane] += delta
        self._write(OTHERS, lane, self.levels[lane] + delta)

    def applied(self) -> Counter[str]:
        """How often each movement was applied."""
        return Counter(one.movement_id for one in self.log if one.movement_id != OTHERS)

    def order(self) -> dict[str, list[str]]:
        """By lane the movements in the order in which each was applied first."""
        found: dict[str, dict[str, None]] = defaultdict(dict)
        for one in self.log:
            if one.movement_id != OTHERS:
                found[one.lane][one.movement_id] = None
        return {lane: [*movements] for lane, movements in found.items()}

    def _write(self, movement_id: str, lane: str, level: int) -> None:
        self.levels[lane] = level
        self.versions[lane] += 1
        self.log.append(AppliedChange(movement_id, lane, level))
