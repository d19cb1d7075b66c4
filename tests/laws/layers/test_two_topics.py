"""Why a family has one topic: of two writers who have read prefixes of two, none need hold what the
other has, and a register by how many events each has seen loses some for good (ADR 021)."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

from tally.algebra.merge import register

EPOCH = 1
SEARCH = settings(max_examples=2_000, database=None, suppress_health_check=list(HealthCheck))


class TopicReader(NamedTuple):
    """How far a writer has read each topic of a window."""

    reached: tuple[int, ...]

    @property
    def held(self) -> set[tuple[int, int]]:
        """Its events: topic and place."""
        return {(topic, place) for topic, end in enumerate(self.reached) for place in range(end)}


def readers(topics: int) -> st.SearchStrategy[list[TopicReader]]:
    """Two writers, each of a prefix of each topic."""
    ends = st.tuples(*[st.integers(0, 4)] * topics)
    return st.lists(st.builds(TopicReader, ends), min_size=2, max_size=2)


def kept(writers: Sequence[TopicReader]) -> set[tuple[int, int]]:
    """What the row holds after all have written: the one of the highest register stays."""
    return max(writers, key=lambda one: register(EPOCH, len(one.held))).held


def loses(writers: Sequence[TopicReader]) -> bool:
    """Whether an event that somebody has written is in no row."""
    return kept(writers) != set().union(*(one.held for one in writers))


@given(writers=readers(1))
def test_of_one_topic_the_row_of_the_highest_register_holds_everything(
    writers: list[TopicReader],
) -> None:
    assert not loses(writers)


@pytest.mark.parametrize("topics", [2, 3])
def test_of_more_topics_it_loses_what_the_other_writer_has_seen(topics: int) -> None:
    found = find(readers(topics), loses, settings=SEARCH)

    # Two events are enough: each writer has seen one of another topic.
    assert len(set().union(*(one.held for one in found))) == 2
