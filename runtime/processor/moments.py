"""Named moments of a delivery: what has been done when one comes, and the next step has not."""

AFTER_POLL = "after_poll"
# Between the two halves of a delivery: the output is sent and the position is not kept yet, or the
# other way round.
BETWEEN = "between_output_and_position"
BEFORE_OFFSETS = "before_offsets"
AFTER_OFFSETS = "after_offsets"
BEFORE_COMMIT = "before_commit"
AFTER_COMMIT = "after_commit"
NAMES = (AFTER_POLL, BETWEEN, BEFORE_OFFSETS, AFTER_OFFSETS, BEFORE_COMMIT, AFTER_COMMIT)


class Moments:
    """Told of each moment, and does nothing.

    Another one in its place can end the process there: so each step is shown to survive a crash.
    """

    def reach(self, name: str) -> None:
        """The moment has come."""
