"""The versions of one receipt and their reversals, and which of the versions counts.

All events of one receipt are its chain. Their order does not depend on the order of arrival, and
the last one decides:

    pos:1:1:0:42               the receipt
    version:+<digest>:pos:…    a correction without a number: after what was closed before it
    version:-<digest>:pos:…    the receipt was cancelled: the same, and adds nothing
    version:3:pos:1:1:0:42     its revision 3: after all lower ones
    void:3:pos:1:1:0:42        takes back all revisions up to 3
    void:pos:1:1:0:42          takes back all of them

If the last one is a void, no version counts; else it counts, and the others do not. It does not
count either if the receipt was cancelled no sooner than it was closed, regardless of its number
(docs/adr/026-revisions.md). batch_layer/views/compute/chains.py has the same rule for Spark.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from tally.events.identity import REVERSAL, VERSION

LAST_REVISION = 2**31 - 1
# The value of `kind` of an event that says that a receipt was cancelled.
CANCELLATION = 2
_ZEROS = re.compile(r":0+([0-9]+)\Z")
_IDENTITY = re.compile(
    rf"(?:({REVERSAL})(?:([0-9]+):)?|({VERSION})(?:([0-9]+)|([+-])[0-9a-f]{{32}}):)?(.*)", re.DOTALL
)


class ChainPosition(NamedTuple):
    """The place of an event in its chain, as far as its identity determines it.

    `kind` orders events that were closed at one time: the receipt, a correction, a cancelling.
    """

    chain: str
    revision: int
    is_void: bool
    kind: int

    @property
    def is_cancellation(self) -> bool:
        """Whether the event says that its receipt was cancelled, and adds nothing."""
        return self.kind == CANCELLATION


class ChainEvent(NamedTuple):
    """The first copy of an event, with the time when it was closed and its place in the log.

    `closed_at` may be anything that is ordered.
    """

    event_id: str
    closed_at: str
    offset: int


def parse_chain_position(event_id: str) -> ChainPosition:
    """The place of an event.

    >>> parse_chain_position("version:3:pos:1:1:0:42")
    ChainPosition(chain='pos:1:1:0:42', revision=3, is_void=False, kind=0)
    >>> parse_chain_position("void:pos:1:1:0:42").is_void
    True
    """
    match = _IDENTITY.fullmatch(event_id)
    if match is None:
        return ChainPosition(event_id, 0, False, 0)
    void, until, _, number, sign, chain = match.groups()
    if void:
        return ChainPosition(chain, LAST_REVISION if until is None else int(until), True, 0)
    kind = {"+": 1, "-": CANCELLATION}.get(sign, 0)
    return ChainPosition(chain, int(number or 0), False, kind)


def rank(event: ChainEvent) -> tuple[int, bool, str, int, int]:
    """The key by which the events of one chain are ordered.

    It is the revision, whether the event is a void, when it was closed (as the event has it), kind,
    place in the log (offset).
    """
    place = parse_chain_position(event.event_id)
    return (place.revision, place.is_void, event.closed_at, place.kind, event.offset)


def effective_event(events: Iterable[ChainEvent]) -> ChainEvent | None:
    """The event of one chain that counts; None where a void is the last of them.

    A version does not count either if its receipt was cancelled no sooner than it was closed: a
    cancelling has no number, so the version's number does not matter.
    """
    events = [*events]
    last = max(events, key=rank, default=None)
    if last is None or parse_chain_position(last.event_id).is_void:
        return None
    endings = (
        event.closed_at for event in events if parse_chain_position(event.event_id).is_cancellation
    )
    is_cancelled = not parse_chain_position(last.event_id).is_cancellation and any(
        closed_at >= last.closed_at for closed_at in endings
    )
    return None if is_cancelled else last


def effective_event_ids(events: Iterable[ChainEvent]) -> set[str]:
    """The identities of the events that count, of the first copies of any receipts.

    A void whose receipt is not there takes back the only receipt that has the same name except for
    zeros before its number.
    """
    events = [*events]
    # By name without these zeros, so that a void finds the receipt that it means.
    receipts: dict[str, set[str]] = defaultdict(set)
    for event in events:
        if not (place := parse_chain_position(event.event_id)).is_void:
            receipts[_without_zeros(place.chain)].add(place.chain)
    chains: dict[str, list[ChainEvent]] = defaultdict(list)
    for event in events:
        chain = parse_chain_position(event.event_id).chain
        alike = receipts.get(_without_zeros(chain), set())
        chains[next(iter(alike)) if len(alike) == 1 else chain].append(event)
    standing = (effective_event(chain) for chain in chains.values())
    return {event.event_id for event in standing if event is not None}


def _without_zeros(chain: str) -> str:
    return _ZEROS.sub(r":\1", chain)
