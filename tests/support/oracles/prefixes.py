"""Every value that an honest reader may see of a window: the sums over each prefix of the window's
committed events.

The events are read from the raw topic and added up by a plain oracle; of the pipeline only the dead
letters' coordinates are used. An answer that names how far it reaches (`through`) owes at least
what had arrived by then.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ops.audit.ledgers import dead_letters
from runtime.kafka.reader import read_to_end
from tally.config.settings import Settings
from tally.time.instants import from_millis
from tests.support.clients.readers import METRICS, Fall, Readings, Seen, Told
from tests.support.oracles.plain_oracle import Event, event_of
from tests.support.oracles.pos_oracle import revenue_of

RAW_SALES = "posTransactionTopic"
Key = tuple[str, datetime]
Sums = tuple[int, int]
Arrived = tuple[datetime, Event]


@dataclass(frozen=True)
class Step:
    """A window after one more of its events: when that arrived, and the sums (receipts, net
    minor units) with every first copy of the window (`shown`), and without those whose first
    copy lies in another window (`kept`): a rebuild takes them back."""

    arrived_at: datetime
    shown: Sums
    kept: Sums


Steps = Mapping[Key, Sequence[Step]]


@dataclass(frozen=True)
class Verdict:
    """What was compared, and everything that was told and is no prefix, or fell without a
    conflict."""

    compared: int
    no_prefix: list[Seen]
    falls: list[Fall]

    @property
    def holds(self) -> bool:
        """Whether something was compared and nothing is wrong."""
        return self.compared > 0 and not self.no_prefix and not self.falls

    def __str__(self) -> str:
        found = f"{len(self.no_prefix)} that are no prefix, {len(self.falls)} falls"
        return (
            f"{self.compared:,} distinct cells compared: {found} {self.no_prefix[:5]}"
            f" {self.falls[:5]}"
        )


def judged(steps: Steps, *readings: Readings) -> Verdict:
    """The verdict over everything that readers were told."""
    seen = set().union(*(one.seen for one in readings))
    falls = [
        fall
        for one in readings
        for fall in one.falls
        if not has_conflict(steps, (fall.store, fall.start))
    ]
    return Verdict(len(seen), no_prefix(steps, seen), falls)


def no_prefix(steps: Steps, seen: Iterable[Seen]) -> list[Seen]:
    """The cells that no prefix of the committed events gives, or only one that is too short for
    what the answer claimed."""
    return [cell for cell in seen if not is_prefix(steps.get((cell.store, cell.start), ()), cell)]


def is_prefix(steps: Sequence[Step], cell: Seen) -> bool:
    """Whether the window's steps allow the cell.

    Zero before the first event, and unknown, are honest only from an answer by whose `through`
    nothing had arrived; a row of the speed layer has an event.
    """
    owed = 0 if cell.through is None else sum(step.arrived_at < cell.through for step in steps)
    if cell.value is None:
        return owed == 0
    if cell.value == 0 and owed == 0 and cell.source == "batch":
        return True
    place = METRICS.index(cell.metric)
    return any(
        cell.value in (step.shown[place], step.kept[place]) for step in steps[max(owed, 1) - 1 :]
    )


def has_conflict(steps: Steps, key: Key) -> bool:
    """Whether a rebuild takes something back in the window: only there a value may fall."""
    return any(step.shown != step.kept for step in steps.get(key, ()))


def unread(told: Iterable[Told]) -> set[Seen]:
    """Values as cells that claim nothing."""
    return {Seen(*one, source="speed", through=None) for one in told}


def committed_steps(settings: Settings, stores: Collection[str] = ()) -> Steps:
    """The steps of every window of sales, from the raw topic as it stands; of some stores only,
    if they are named."""
    return steps_of(arrivals(settings, RAW_SALES, stores))


def steps_of(arrived: Iterable[Arrived]) -> Steps:
    """The steps by (store, window) of events in their order of arrival."""
    steps: dict[Key, list[Step]] = defaultdict(list)
    home: dict[tuple[str, ...], datetime] = {}
    known: set[tuple[tuple[str, ...], datetime]] = set()
    for arrived_at, event in arrived:
        store, window, _ = event.cell
        if (event.identity, window) in known:
            continue
        known.add((event.identity, window))
        last = (
            steps[store, window][-1] if steps[store, window] else Step(arrived_at, (0, 0), (0, 0))
        )
        is_kept = home.setdefault(event.identity, window) == window
        kept = _added(last.kept, event) if is_kept else last.kept
        steps[store, window].append(Step(arrived_at, _added(last.shown, event), kept))
    return dict(steps)


def _added(sums: Sums, event: Event) -> Sums:
    return sums[0] + event.parts[0], sums[1] + revenue_of(event.parts)


def arrivals(settings: Settings, topic: str, keys: Collection[str] = ()) -> Iterator[Arrived]:
    """Each committed message of a raw topic that became no dead letter, with its arrival; in
    offset order within its partition."""
    wanted = {key.encode() for key in keys}
    dead = {
        (letter.partition, letter.offset)
        for letter in dead_letters(settings)
        if letter.topic == topic
    }
    for message in read_to_end(settings, [topic]):
        if (message.partition(), message.offset()) not in dead and (
            not wanted or message.key() in wanted
        ):
            yield from_millis(message.timestamp()[1]), event_of(message.value() or b"")
