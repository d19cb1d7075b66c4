"""What tells whether alerts themselves are well, as numbers for Prometheus.

All of it is of an instant that is given: an age goes on growing while nobody can be asked.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from msgspec import Struct

from serving.alerts.inquiry import ListedAlert
from tally.alerts.delivery.records import UndeliveredMessages
from tally.alerts.standing import RANKS
from tally.alerts.tick import Tick

_INFINITE = float("inf")
# Labels of a sample by name.
Labels = Mapping[str, str]
AlertSample = tuple[Labels, float]
# By partition and channel.
Undelivered = Mapping[int, Mapping[str, UndeliveredMessages]]


class AlertFacts(Struct, frozen=True):
    """What brokers and processes say of the alerts' machinery; instants are ms since 1970 (UTC).

    `ticks`: by partition what its ticks say; `judged`: by partition when the tick came that was
    judged last; `undelivered`: by partition and channel what has not arrived; `restored`: by
    service the seconds that it took to restore its state last.
    """

    ticks: Mapping[int, Tick] = {}
    judged: Mapping[int, int] = {}
    undelivered: Undelivered = {}
    restored: Mapping[str, float] = {}


class AlertFactSource(Protocol):
    """Whoever looks at the brokers."""

    def facts(self) -> AlertFacts:
        """What was known at the last look."""
        ...


class AlertGauge(NamedTuple):
    """A gauge with its samples: labels, and the value."""

    name: str
    samples: Iterable[AlertSample]

    @property
    def text(self) -> str:
        """Prometheus exposition text, "" without a sample."""
        lines = [f"{self.name}{_label_text(labels)} {_text(one)}" for labels, one in self.samples]
        return "\n".join([f"# TYPE {self.name} gauge", *lines, ""]) if lines else ""


def gauges_of_facts(facts: AlertFacts, now: int) -> list[AlertGauge]:
    """The gauges that brokers and processes tell, by the instant `now` (ms since 1970, UTC)."""
    return [
        AlertGauge("tally_alerts_tick_lag_seconds", _tick_lags(facts.ticks, now)),
        AlertGauge("tally_evaluator_blind_seconds", _blind(facts.judged, now)),
        AlertGauge("tally_deliveries_pending_seconds", _pending(facts.undelivered, now)),
        AlertGauge("tally_deliveries_dead_total", _dead(facts.undelivered)),
        AlertGauge("tally_deliveries_blocked", _blocked(facts.undelivered)),
        AlertGauge("tally_restore_seconds", _restored(facts.restored)),
    ]


def gauges_of_alerts(still: Iterable[ListedAlert]) -> list[AlertGauge]:
    """The gauges of the alerts that are open."""
    every = [*still]
    states = Counter(one.state for one in every)
    # What was taken back is not open.
    standing = (one for one in RANKS if one != "retracted")
    samples = [({"state": one}, float(states[one])) for one in standing]
    overdue = float(sum(one.overdue for one in every))
    return [
        AlertGauge("tally_alerts_open", samples),
        AlertGauge("tally_alerts_overdue", [({}, overdue)]),
    ]


def _blind(judged: Mapping[int, int], now: int) -> Iterator[AlertSample]:
    if judged:
        yield {}, _seconds(now, min(judged.values()))


def _restored(restored: Mapping[str, float]) -> Iterator[AlertSample]:
    for name, seconds in sorted(restored.items()):
        yield {"service": name}, seconds


def _tick_lags(ticks: Mapping[int, Tick], now: int) -> Iterator[AlertSample]:
    for family in sorted({name for one in ticks.values() for name in one.through}):
        # By the partition that is furthest behind: its stores wait.
        through = [one.through.get(family) for one in ticks.values()]
        lags = (_INFINITE if at is None else _seconds(now, at) for at in through)
        yield {"family": family}, max(lags)


def _pending(undelivered: Undelivered, now: int) -> Iterator[AlertSample]:
    for channel, each in _by_channel(undelivered):
        since = [one.waiting_since for one in each if one.waiting_since is not None]
        yield {"channel": channel}, _seconds(now, min(since)) if since else 0.0


def _dead(undelivered: Undelivered) -> Iterator[AlertSample]:
    for channel, each in _by_channel(undelivered):
        yield {"channel": channel}, float(sum(one.dead for one in each))


def _blocked(undelivered: Undelivered) -> Iterator[AlertSample]:
    for channel, each in _by_channel(undelivered):
        yield {"channel": channel}, float(sum(partition.blocked for partition in each))


def _by_channel(
    undelivered: Undelivered,
) -> Iterator[tuple[str, list[UndeliveredMessages]]]:
    for channel in sorted({name for named in undelivered.values() for name in named}):
        yield channel, [named[channel] for named in undelivered.values() if channel in named]


def _seconds(now: int, at: int) -> float:
    # The clocks of brokers and of this process are two.
    return max(0, now - at) / 1000


def _text(value: float) -> str:
    return "+Inf" if value == _INFINITE else f"{value:.15g}"


def _label_text(labels: Labels) -> str:
    told = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{told}}}" if told else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
