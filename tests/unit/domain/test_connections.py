"""With which guarantees Tally connects; one node or one broker alone, or a machine at rest, could
not show them."""

from cassandra import ConsistencyLevel

from runtime.connect import REQUEST_TIMEOUT_SECONDS, cassandra_cluster
from tally.settings import Settings


def test_views_are_read_and_written_by_a_quorum_and_pointers_are_linearizable() -> None:
    profile = cassandra_cluster(Settings()).profile_manager.default

    assert (profile.consistency_level, profile.serial_consistency_level) == (
        ConsistencyLevel.LOCAL_QUORUM,
        ConsistencyLevel.SERIAL,
    )


def test_session_waits_for_the_schema_as_long_as_for_any_answer() -> None:
    assert cassandra_cluster(Settings()).control_connection_timeout == REQUEST_TIMEOUT_SECONDS
