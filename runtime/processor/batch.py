"""What one transaction holds: outputs of the inputs taken so far, and how far they were read."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from runtime.processor.record import Input, Output


@dataclass
class Batch:
    """What the inputs became, and the last one by topic and partition."""

    outputs: list[Output] = field(default_factory=list)
    last: dict[tuple[str, int], Input] = field(default_factory=dict)
    inputs: int = 0
    begun: float = 0.0

    def add(self, record: Input, outputs: Sequence[Output], now: float) -> None:
        """Take one input and what it became."""
        # Its age counts from the first input: a processor with nothing to do has no transaction.
        if not self.inputs:
            self.begun = now
        self.inputs += 1
        self.last[record.topic, record.partition] = record
        self.outputs.extend(outputs)
