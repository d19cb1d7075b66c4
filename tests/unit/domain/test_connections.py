"""With which guarantees Tally connects; one node or one broker alone could not show them."""

from cassandra import ConsistencyLevel

from runtime.connect import cassandra_cluster
from tally.settings import Settings


def test_views_are_read_and_written_by_a_quorum_and_pointers_are_linearizable() -> None:
    profile = cassandra_cluster(Settings()).profile_manager.default

    assert (profile.consistency_level, profile.serial_consistency_level) == (
        ConsistencyLevel.LOCAL_QUORUM,
        ConsistencyLevel.SERIAL,
    )
