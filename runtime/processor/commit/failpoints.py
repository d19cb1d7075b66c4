"""Named moments of a delivery: points after one step and before the next."""

AFTER_POLL = "after_poll"
# Between the two halves of a delivery: the output is sent and the position is not committed yet, or
# the other way round.
BETWEEN = "between_output_and_position"
BEFORE_OFFSETS = "before_offsets"
AFTER_OFFSETS = "after_offsets"
BEFORE_COMMIT = "before_commit"
AFTER_COMMIT = "after_commit"
NAMES = (AFTER_POLL, BETWEEN, BEFORE_OFFSETS, AFTER_OFFSETS, BEFORE_COMMIT, AFTER_COMMIT)


class Failpoints:
    """A hook that is called at each moment, and does nothing.

    Tests replace it by one that ends the process there, which shows that each step survives a
    crash.
    """

    def hit(self, name: str) -> None:
        """Handle that the moment has come."""
