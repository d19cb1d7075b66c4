"""Prometheus gauges of the health of alerting itself.

All of them are computed for a given instant: an age keeps growing while the brokers do not answer.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from msgspec import Struct

from alerting.alert.current_state import STATE_RANKS
from alerting.queries.alerts import ListedAlert
from runtime.http.exposition import MetricSample, format_gauge
from runtime.outbound.records import UndeliveredMessages
from tally.alerts.tick import Tick

_INFINITE = float("inf")
# Keyed by partition, then by channel.
Undelivered = Mapping[int, Mapping[str, UndeliveredMessages]]

_DESCRIPTIONS = {
    "tally_alerts_tick_lag_seconds": "Age of the instant up to which the last partition is read",
    "tally_evaluator_blind_seconds": "Age of the oldest tick that was evaluated last",
    "tally_deliveries_pending_seconds": "Age of the oldest message that waits",
    "tally_deliveries_dead_total": "Messages that were given up",
    "tally_deliveries_blocked": "Messages that wait for a repair",
    "tally_restore_seconds": "Seconds until the state was restored",
}


class AlertFacts(Struct, frozen=True):
    """The state of alerting as brokers and processes report it; instants are ms since 1970 (UTC).

    `ticks`: the merged ticks of each partition; `evaluated_at`: for each partition the time of the
    tick that was evaluated last; `undelivered`: by partition and channel the messages that have not
    arrived; `restore_seconds`: for each service the seconds that its last restore of state took.
    """

    ticks: Mapping[int, Tick] = {}
    evaluated_at: Mapping[int, int] = {}
    undelivered: Undelivered = {}
    restore_seconds: Mapping[str, float] = {}


class AlertFactSource(Protocol):
    """A source of alert facts, such as a watch on the brokers."""

    def facts(self) -> AlertFacts:
        """The facts as of the last poll."""
        ...


class AlertGauge(NamedTuple):
    """A gauge with its samples; each sample is its labels and its value."""

    name: str
    description: str
    samples: Iterable[MetricSample]

    @property
    def text(self) -> str:
        """Prometheus exposition text, "" without a sample."""
        return format_gauge(self.name, self.description, self.samples)


def build_fact_gauges(facts: AlertFacts, now: int) -> list[AlertGauge]:
    """The gauges computed from the facts for the instant `now` (ms since 1970, UTC)."""
    waiting = facts.undelivered
    gauges = {
        "tally_alerts_tick_lag_seconds": _tick_lags(facts.ticks, now),
        "tally_evaluator_blind_seconds": _evaluation_lag_samples(facts.evaluated_at, now),
        "tally_deliveries_pending_seconds": _pending_samples(waiting, now),
        "tally_deliveries_dead_total": _dead_samples(waiting),
        "tally_deliveries_blocked": _block_samples(waiting),
        "tally_restore_seconds": _restore_samples(facts.restore_seconds),
    }
    return [AlertGauge(name, _DESCRIPTIONS[name], samples) for name, samples in gauges.items()]


def build_alert_gauges(open_alerts: Iterable[ListedAlert]) -> list[AlertGauge]:
    """The gauges that count the open alerts."""
    alerts = [*open_alerts]
    states = Counter(alert.state for alert in alerts)
    # A retracted alert is not open.
    standing = (state for state in STATE_RANKS if state != "retracted")
    samples = [({"state": state}, float(states[state])) for state in standing]
    overdue = float(sum(alert.overdue for alert in alerts))
    return [
        AlertGauge("tally_alerts_open", "Open alerts by state", samples),
        AlertGauge("tally_alerts_overdue", "Alerts that should be confirmed", [({}, overdue)]),
    ]


def _evaluation_lag_samples(evaluated_at: Mapping[int, int], now: int) -> Iterator[MetricSample]:
    if evaluated_at:
        yield {}, _age_seconds(now, min(evaluated_at.values()))


def _restore_samples(restored: Mapping[str, float]) -> Iterator[MetricSample]:
    for name, seconds in sorted(restored.items()):
        yield {"service": name}, seconds


def _tick_lags(ticks: Mapping[int, Tick], now: int) -> Iterator[MetricSample]:
    for family in sorted({name for tick in ticks.values() for name in tick.through}):
        # The partition that is furthest behind decides, because its stores wait.
        through = [tick.through.get(family) for tick in ticks.values()]
        lags = (_INFINITE if at is None else _age_seconds(now, at) for at in through)
        yield {"family": family}, max(lags)


def _pending_samples(undelivered: Undelivered, now: int) -> Iterator[MetricSample]:
    for channel, partitions in _group_by_channel(undelivered):
        since = [
            messages.waiting_since for messages in partitions if messages.waiting_since is not None
        ]
        yield {"channel": channel}, _age_seconds(now, min(since)) if since else 0.0


def _dead_samples(undelivered: Undelivered) -> Iterator[MetricSample]:
    for channel, partitions in _group_by_channel(undelivered):
        yield {"channel": channel}, float(sum(messages.dead for messages in partitions))


def _block_samples(undelivered: Undelivered) -> Iterator[MetricSample]:
    for channel, partitions in _group_by_channel(undelivered):
        yield {"channel": channel}, float(sum(partition.blocked for partition in partitions))


def _group_by_channel(undelivered: Undelivered) -> Iterator[tuple[str, list[UndeliveredMessages]]]:
    for channel in sorted({name for named in undelivered.values() for name in named}):
        yield channel, [named[channel] for named in undelivered.values() if channel in named]


def _age_seconds(now: int, at: int) -> float:
    # The clocks of the brokers and of this process may differ, so an age can come out negative.
    return max(0, now - at) / 1000
