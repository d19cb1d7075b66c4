"""Metrics in the text format of Prometheus, written by its own client library."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

# The labels of a sample by name, and its value.
MetricSample = tuple[Mapping[str, str], float]


class _Gauges(Collector):
    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """The metrics, each with its samples."""
        return iter(self._metrics)


def format_gauge(name: str, description: str, samples: Iterable[MetricSample]) -> str:
    """A gauge as text, "" without a sample."""
    gauge = Metric(name, description, "gauge")
    for labels, value in samples:
        gauge.add_sample(name, dict(labels), value)
    return generate_latest(_Gauges([gauge])).decode() if gauge.samples else ""
