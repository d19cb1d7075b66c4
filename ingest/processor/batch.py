"""What one transaction holds: outputs of the inputs taken so far, and how far they reach."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ingest.processor.record import Input, Output


@dataclass
class Batch:
    """What the inputs became, the last one by topic and partition, and how much event time they span by topic."""

    outputs: list[Output] = field(default_factory=list)
    last: dict[tuple[str, int], Input] = field(default_factory=dict)
    inputs: int = 0
    begun: float = 0.0
    _spans: dict[str, tuple[float, float]] = field(default_factory=dict)

    def add(self, record: Input, event_time: float, outputs: Sequence[Output], now: float) -> None:
        """Take one input; event_time is the progress of its partition, -inf if unknown."""
        if not self.inputs:
            self.begun = now
        self.inputs += 1
        self.last[record.topic, record.partition] = record
        self.outputs.extend(outputs)
        if event_time != float("-inf"):
            low, high = self._spans.get(record.topic, (event_time, event_time))
            self._spans[record.topic] = min(low, event_time), max(high, event_time)

    def span_with(self, topic: str, event_time: float) -> float:
        """Seconds of event time that the topic's part would span with one more input."""
        if topic not in self._spans or event_time == float("-inf"):
            return 0.0
        low, high = self._spans[topic]
        return max(high, event_time) - min(low, event_time)
