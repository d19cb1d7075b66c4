"""One look at the whole pipeline, in the order in which a record travels."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from alerting.watermark.watermark import PipelineSnapshot, SpeedPosition
from runtime.kafka.offsets import Offsets, TopicOffsets

# Keyed by family, then by partition.
FamilyPositions = Mapping[str, Mapping[int, SpeedPosition]]
_NONE: Offsets = {}


class Pipeline(Protocol):
    """A source of how far records have come. Offsets are by family and partition.

    Never raises; services that do not answer are absent from the result.
    """

    def raw_ends(self) -> TopicOffsets:
        """The ends of the raw topics, including open transactions."""

    def positions(self) -> TopicOffsets:
        """The first offsets of the raw topics that the normaliser has not passed."""

    def canonical_ends(self) -> TopicOffsets:
        """The ends of the canonical topics, including open transactions."""

    def speed_positions(self) -> FamilyPositions:
        """How far the speed layer has read the canonical topics."""

    def stable_ends(self) -> TopicOffsets:
        """The ends of the canonical topics, without records in open transactions."""


def probe_pipeline(
    pipeline: Pipeline,
    families: Iterable[str],
    at: int,
) -> dict[str, PipelineSnapshot]:
    """One glance at each family now.

    `at`: an instant (ms since 1970, UTC) that has passed by the brokers' clock.
    """
    # In the direction in which records travel: a record that is not seen at a later stage was seen
    # at an earlier one. In the opposite order, a moving record could slip past unseen.
    raw_ends = pipeline.raw_ends()
    positions = pipeline.positions()
    written = pipeline.canonical_ends()
    reached = pipeline.speed_positions()
    stable = pipeline.stable_ends()
    return {
        name: PipelineSnapshot(
            at,
            raw_ends.get(name, _NONE),
            positions.get(name, _NONE),
            written.get(name, _NONE),
            reached.get(name, {}),
            stable.get(name, _NONE),
        )
        for name in families
    }
