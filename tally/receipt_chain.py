"""The versions of one receipt, and what takes them back: which of them counts.

All events of one receipt are its chain. They have an order of their own, whichever order they came
in, and the last one decides:

    pos:1:1:0:42               the receipt
    version:+<digest>:pos:…    a correction without a number: after what was closed before it
    version:-<digest>:pos:…    the receipt was cancelled: the same, and adds nothing
    version:3:pos:1:1:0:42     its revision 3: after all lower ones
    void:3:pos:1:1:0:42        takes back all revisions up to 3
    void:pos:1:1:0:42          takes back all of them

If the last one is a void, no version counts; else it counts, and the others do not. A receipt that
was cancelled no sooner than that was closed does not count either, whatever its number
(docs/adr/026-revisions.md). batch_layer/views/chains.py has the same for Spark.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from tally.identity import REVERSAL, VERSION

LAST_REVISION = 2**31 - 1
# The place in `kind` of what says that a receipt was cancelled.
ENDING = 2
_ZEROS = re.compile(r":0+([0-9]+)\Z")
_IDENTITY = re.compile(
    rf"(?:({REVERSAL})(?:([0-9]+):)?|({VERSION})(?:([0-9]+)|([+-])[0-9a-f]{{32}}):)?(.*)", re.DOTALL
)


class ChainPlace(NamedTuple):
    """Where an event stands in its chain, as far as its identity says it.

    `kind` orders what was closed at one time: the receipt, a correction, a cancelling.
    """

    chain: str
    revision: int
    is_void: bool
    kind: int

    @property
    def is_ending(self) -> bool:
        """Whether the event says that its receipt was cancelled, and adds nothing."""
        return self.kind == ENDING


class ChainEvent(NamedTuple):
    """The first copy of an event: when it was closed (anything that is ordered), and its place in
    the log."""

    event_id: str
    closed_at: str
    offset: int


def read_place(event_id: str) -> ChainPlace:
    """The place of an event.

    >>> read_place("version:3:pos:1:1:0:42")
    ChainPlace(chain='pos:1:1:0:42', revision=3, is_void=False, kind=0)
    >>> read_place("void:pos:1:1:0:42").is_void
    True
    """
    found = _IDENTITY.fullmatch(event_id)
    if found is None:
        return ChainPlace(event_id, 0, False, 0)
    void, until, _, number, sign, chain = found.groups()
    if void:
        return ChainPlace(chain, LAST_REVISION if until is None else int(until), True, 0)
    kind = {"+": 1, "-": ENDING}.get(sign, 0)
    return ChainPlace(chain, int(number or 0), False, kind)


def rank(event: ChainEvent) -> tuple[int, bool, str, int, int]:
    """What orders the events of one chain: revision, whether it is a void, when it was closed (as
    the event has it), kind, place in the log (offset)."""
    place = read_place(event.event_id)
    return (place.revision, place.is_void, event.closed_at, place.kind, event.offset)


def standing_event(events: Iterable[ChainEvent]) -> ChainEvent | None:
    """The event of one chain that counts; None where a void stands behind all of them.

    Nor does a version count of a receipt that was cancelled no sooner than it was closed: a
    cancelling has no number, whatever number the version has.
    """
    events = [*events]
    last = max(events, key=rank, default=None)
    if last is None or read_place(last.event_id).is_void:
        return None
    endings = (one.closed_at for one in events if read_place(one.event_id).is_ending)
    is_cancelled = not read_place(last.event_id).is_ending and any(
        closed_at >= last.closed_at for closed_at in endings
    )
    return None if is_cancelled else last


def standing_events(events: Iterable[ChainEvent]) -> set[str]:
    """Identities of those that count, of the first copies of any receipts.

    A void whose receipt is not there takes back the only one that is called so but for zeros before
    its number.
    """
    events = [*events]
    # By their name without zeros, so that a void finds the one that it means.
    receipts: dict[str, set[str]] = defaultdict(set)
    for event in events:
        if not (place := read_place(event.event_id)).is_void:
            receipts[_without_zeros(place.chain)].add(place.chain)
    chains: dict[str, list[ChainEvent]] = defaultdict(list)
    for event in events:
        chain = read_place(event.event_id).chain
        alike = receipts.get(_without_zeros(chain), set())
        chains[next(iter(alike)) if len(alike) == 1 else chain].append(event)
    standing = (standing_event(chain) for chain in chains.values())
    return {event.event_id for event in standing if event is not None}


def _without_zeros(chain: str) -> str:
    return _ZEROS.sub(r":\1", chain)
