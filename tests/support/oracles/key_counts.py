"""A step with a memory, for tests: how often each key has come."""

from collections.abc import Iterable, Sequence

from runtime.processor.step import Input, Output, Step


class KeyCounts(Step):
    """Tells `target` of each record how often its key has come, as `a=2`; the last count of each
    key is its state."""

    def __init__(self, target: str, state_topic: str) -> None:
        self.state_topic = state_topic
        self._target = target
        self._counts: dict[bytes, int] = {}
        # The partition of each key that has come since the last tick.
        self._changed: dict[bytes, int] = {}

    def process(self, record: Input) -> Sequence[Output]:
        key = record.key or b""
        self._counts[key] = self._counts.get(key, 0) + 1
        self._changed[key] = record.partition
        return (Output(self._target, key, b"%s=%d" % (key, self._counts[key])),)

    def before_commit(self) -> Sequence[Output]:
        changed, self._changed = self._changed, {}
        return [
            Output(self.state_topic, key, b"%d" % self._counts[key], partition)
            for key, partition in changed.items()
        ]

    def restore(self, state: Iterable[Input]) -> None:
        self._changed = {}
        self._counts = {record.key or b"": int(record.value or b"") for record in state}
