"""Wrong on purpose: an evaluator that takes in what comes in the middle of its stores."""

from collections.abc import Collection

from typing_extensions import override

from alerting.evaluate.step import Evaluator


class HastyEvaluator(Evaluator):
    """What comes for a store that it has left behind counts as evaluated with the others."""

    most_seconds = -1.0

    @property
    @override
    def busy_partitions(self) -> Collection[int]:
        """None, whatever is left to evaluate."""
        return ()
