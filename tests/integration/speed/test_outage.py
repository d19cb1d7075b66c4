import pytest
from pyspark.errors import StreamingQueryException

from tests.integration.speed.query import SpeedQuery

NOBODY_LISTENS = "127.0.0.1:1"


def test_micro_batch_without_cassandra_fails_the_query_and_is_repeated_as_it_was(
    query: SpeedQuery,
) -> None:
    cut_off = query.without_cassandra(NOBODY_LISTENS)
    query.send(query.sale(1), query.sale(2))
    with pytest.raises(StreamingQueryException, match="NoHostAvailable"):
        cut_off.run()
    query.send(query.sale(3))

    with query.running() as running:
        running.processAllAvailable()
        inputs = [report["numInputRows"] for report in running.recentProgress]

    assert (inputs, query.totals()) == ([2, 1], [(3, 300)])
