"""Wrong on purpose: the topic of rules is compacted, so that the last record of a key stays."""

from tally.config.settings import Settings
from tests.controls.guard import refuse_outside_tests


def compacted_configuration(settings: Settings) -> dict[str, str]:
    """Of a topic whose cleaner goes over it as often as it can."""
    refuse_outside_tests(settings)
    return {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.001",
        "max.compaction.lag.ms": "100",
        "message.timestamp.type": "LogAppendTime",
    }
