"""One look at the whole pipeline, in the order in which a record travels."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from runtime.offsets import Offsets, TopicOffsets
from serving.alerts.ticks.walk import Glance, ReadReach

# By family and partition.
FamilyReach = Mapping[str, Mapping[int, ReadReach]]
_NONE: Offsets = {}


class Pipeline(Protocol):
    """Whom to ask how far records have come. Offsets are by family and partition.

    Nothing is raised: of whom nobody can tell now, nothing is in the answer.
    """

    def raw_ends(self) -> TopicOffsets:
        """Ends of the raw topics, open transactions included."""

    def positions(self) -> TopicOffsets:
        """First offsets of the raw topics that the normaliser has not passed."""

    def written(self) -> TopicOffsets:
        """Ends of the canonical topics, open transactions included."""

    def reached(self) -> FamilyReach:
        """How far the speed layer has read the canonical topics."""

    def stable(self) -> TopicOffsets:
        """Ends of the canonical topics without what lies in open transactions."""


def looked(
    pipeline: Pipeline,
    families: Iterable[str],
    at: int,
) -> dict[str, Glance]:
    """What is seen of each family now; `at` (ms since 1970, UTC) has come by the brokers' clock."""
    # From the door on, as records go: one that is in none of the places behind the eye when it
    # looks there is met in one before it. The other way about it slips past unseen.
    raw_ends = pipeline.raw_ends()
    positions = pipeline.positions()
    written = pipeline.written()
    reached = pipeline.reached()
    stable = pipeline.stable()
    return {
        name: Glance(
            at,
            raw_ends.get(name, _NONE),
            positions.get(name, _NONE),
            written.get(name, _NONE),
            reached.get(name, {}),
            stable.get(name, _NONE),
        )
        for name in families
    }
