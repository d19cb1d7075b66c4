"""What is wrong on purpose runs with a test's own settings and with no others."""

from tally.config.settings import Settings

PREFIX = "test_"


# No SystemExit: in a thread nobody would hear of it.
class NotATest(Exception):
    """Something wrong on purpose was about to write where somebody's numbers may lie."""


def refuse_outside_tests(settings: Settings) -> None:
    """Raises NotATest unless the settings' keyspace is one of a test."""
    # For what is done to Kafka too: topics have the same names everywhere, and by its keyspace
    # alone a test's stack is told from the product's.
    if not settings.keyspace.startswith(PREFIX):
        raise NotATest(
            f"wrong on purpose, for tests alone: TALLY_KEYSPACE is {settings.keyspace!r} and has to"
            f" begin with {PREFIX!r}"
        )
