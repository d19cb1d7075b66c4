"""What is wrong on purpose runs in a test's own keyspace and nowhere else."""

from tally.settings import Settings

PREFIX = "test_"


class NotATest(SystemExit):
    """Something wrong on purpose was about to write where somebody's numbers may lie."""


def refuse_outside_tests() -> None:
    """Raises NotATest unless the environment's keyspace is one of a test."""
    keyspace = Settings.load().keyspace
    if not keyspace.startswith(PREFIX):
        raise NotATest(
            f"wrong on purpose, for tests alone: TALLY_KEYSPACE is {keyspace!r} and has to begin"
            f" with {PREFIX!r}"
        )
