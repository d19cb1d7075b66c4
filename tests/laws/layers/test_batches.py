"""Batches to Cassandra: nothing lost or parted, one set of replicas each, and none that
Cassandra would refuse."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from cassandra.connection import DefaultEndPoint
from cassandra.metadata import KeyspaceMetadata, Metadata
from cassandra.policies import SimpleConvictionPolicy
from cassandra.pool import Host
from hypothesis import given
from hypothesis import strategies as st

from runtime.cassandra.writes import BATCH_BYTES, BATCH_STATEMENTS, GROUP_BYTES, build_batches

REFUSED_BY_CASSANDRA = 16 << 20
KEYSPACE, TOKENS_A_NODE = "tally", 16
Batch = list[Any]
SIZES = st.lists(
    st.lists(st.sampled_from([1, 200, 3_000, 30_000]), min_size=1, max_size=80).map(tuple),
    max_size=60,
)


@dataclass(frozen=True)
class Bound:
    """Stands in for a bound statement: its number, its partition, serialised values."""

    number: int
    routing_key: bytes
    values: tuple[bytes | None, ...]
    keyspace: str = KEYSPACE


def ring(nodes: int, replication: int = 3) -> Metadata:
    """The driver's own map of a cluster whose nodes have random tokens."""
    chance, metadata, tokens = random.Random(nodes), Metadata(), {}
    for number in range(nodes):
        host, _ = metadata.add_or_return_host(
            Host(DefaultEndPoint(f"127.0.0.{number + 1}"), SimpleConvictionPolicy)
        )
        tokens[host] = [str(chance.randrange(-(2**63), 2**63)) for _ in range(TOKENS_A_NODE)]
    metadata.keyspaces[KEYSPACE] = KeyspaceMetadata(
        KEYSPACE, True, "SimpleStrategy", {"replication_factor": str(replication)}
    )
    metadata.rebuild_token_map("org.apache.cassandra.dht.Murmur3Partitioner", tokens)
    metadata.token_map.rebuild_keyspace(KEYSPACE, build_if_absent=True)
    return metadata


RINGS = {nodes: ring(nodes) for nodes in (1, 3, 6)}


def groups(*sizes: tuple[int, ...]) -> list[Batch]:
    """Groups of statements with values of these sizes, numbered through, each group of a
    partition of its own."""
    numbers = iter(range(100_000))
    return [
        [Bound(next(numbers), f"store {place}".encode(), (b"x" * size, None)) for size in group]
        for place, group in enumerate(sizes)
    ]


def numbers(batches: Sequence[Sequence[Any]]) -> list[list[int]]:
    """Which statements each batch holds."""
    return [[statement.number for statement in batch] for batch in batches]


def statements_of(groups: Sequence[Batch], nodes: Metadata) -> Iterator[Sequence[Any]]:
    """What each batch carries."""
    return (batch.statements for batch in build_batches(groups, nodes))


def replicas(statement: Bound, nodes: Metadata) -> frozenset[str]:
    """The nodes that hold the statement's partition, as the driver says."""
    return frozenset(
        host.address for host in nodes.get_replicas(statement.keyspace, statement.routing_key)
    )


@given(
    st.lists(
        st.lists(st.sampled_from([1, 200, 3_000, 30_000]), min_size=1, max_size=80).map(tuple),
        max_size=60,
    ),
    st.sampled_from([1, 3, 6]),
)
def test_all_that_is_given_travels_once_in_whole_groups_to_one_set_of_replicas(
    sizes: list[tuple[int, ...]], nodes: int
) -> None:
    given_groups = groups(*sizes)

    batches = [*statements_of(given_groups, RINGS[nodes])]

    assert sorted(number for batch in numbers(batches) for number in batch) == [
        *range(sum(map(len, sizes)))
    ]
    carried_by = {number: place for place, batch in enumerate(numbers(batches)) for number in batch}
    assert all(len({carried_by[one.number] for one in group}) == 1 for group in given_groups)
    assert all(len({replicas(one, RINGS[nodes]) for one in batch}) == 1 for batch in batches)


@given(SIZES)
def test_batch_over_several_groups_stays_within_its_limits(sizes: list[tuple[int, ...]]) -> None:
    for batch in statements_of(groups(*sizes), RINGS[3]):
        is_several = len({one.routing_key for one in batch}) > 1
        assert not is_several or (
            len(batch) <= BATCH_STATEMENTS
            and sum(len(one.values[0]) for one in batch) <= BATCH_BYTES
        )


@pytest.mark.parametrize("nodes", [3, 6])
def test_thousands_of_partitions_make_few_batches_and_none_spans_two_sets_of_replicas(
    nodes: int,
) -> None:
    batches = [*statements_of(groups(*[(50,)] * 5_000), RINGS[nodes])]

    sets = [{replicas(one, RINGS[nodes]) for one in batch} for batch in batches]
    print(
        f"{nodes} nodes: 5,000 partitions in {len(batches)} batches over {len(set.union(*sets))}"
        " sets of replicas"
    )
    assert all(len(found) == 1 for found in sets)
    assert len(batches) <= 5_000 / BATCH_STATEMENTS + len(set.union(*sets))


def test_ring_of_six_places_partitions_differently() -> None:
    sets = {replicas(group[0], RINGS[6]) for group in groups(*[(1,)] * 200)}

    assert len(sets) > 5


def test_partition_of_unknown_place_travels_by_itself() -> None:
    unknown = ring(3)
    unknown.keyspaces.clear()
    unknown.token_map.remove_keyspace(KEYSPACE)

    assert numbers([*statements_of(groups((10,), (10, 10)), unknown)]) == [[0], [1, 2]]


def test_group_that_no_longer_fits_begins_a_batch() -> None:
    assert numbers([*statements_of(groups((9_000,), (9_000,), (9_000, 10)), RINGS[1])]) == [
        [0, 1],
        [2, 3],
    ]


def test_group_larger_than_a_batch_travels_alone_and_whole() -> None:
    batches = numbers([*statements_of(groups((10,), (9_000,) * 5, (10,)), RINGS[1])])

    assert sorted(batches) == [[0], [1, 2, 3, 4, 5], [6]]


@pytest.mark.parametrize(
    "sizes",
    [[800_000] * 20, [1_600_000] * 20, [6_000_000] * 3, [200] * 9_000, [1] * 5 + [15_000_000]],
)
def test_group_that_cassandra_would_refuse_is_parted(sizes: list[int]) -> None:
    batches = [*statements_of(groups(tuple(sizes)), RINGS[1])]

    for batch in batches:
        size = sum(len(statement.values[0]) for statement in batch)
        assert size <= GROUP_BYTES or (len(batch) == 1 and size < REFUSED_BY_CASSANDRA)
    assert sorted(number for batch in numbers(batches) for number in batch) == [*range(len(sizes))]


def test_nothing_is_no_batch() -> None:
    assert [*statements_of([], RINGS[1])] == []
