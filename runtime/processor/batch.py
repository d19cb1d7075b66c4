"""The batch of one transaction: outputs of the inputs taken so far, and the inputs' positions."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from runtime.kafka.topics import PartitionId
from runtime.processor.commit.record import Input, Output

# The last input by topic and partition.
LastInputs = dict[PartitionId, Input]


@dataclass
class Batch:
    """The outputs of the inputs, and the last input by topic and partition.

    `last` may begin with inputs of held partitions, which earlier transactions have taken without
    moving their positions.
    """

    outputs: list[Output] = field(default_factory=list)
    last: LastInputs = field(default_factory=dict)
    inputs: int = 0
    started_at: float = 0.0

    def add(self, record: Input, outputs: Sequence[Output], now: float) -> None:
        """Add one input and its outputs."""
        # The age counts from the first input: an idle processor has no transaction.
        if not self.inputs:
            self.started_at = now
        self.inputs += 1
        self.last[record.topic, record.partition] = record
        self.outputs.extend(outputs)

    def split_held(self, held: Collection[int]) -> tuple[LastInputs, LastInputs]:
        """The last inputs of partitions that are done, and of those that are held."""
        done, left = LastInputs(), LastInputs()
        for lane, record in self.last.items():
            group = left if lane[1] in held else done
            group[lane] = record
        return done, left
