"""Wrong on purpose: an evaluator that takes in what comes in the middle of its stores."""

from collections.abc import Sequence

from runtime.processor.record import Input, Output
from serving.alerts.evaluator.step import Evaluator


class HastyEvaluator(Evaluator):
    """What comes for a store that it has left behind counts as judged with the others."""

    most_seconds = -1.0

    def process(self, record: Input) -> Sequence[Output]:
        self._learn(record)
        return ()
