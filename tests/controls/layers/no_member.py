"""Wrong on purpose: positions go into a transaction with the metadata of somebody who is no member
of the group.

The brokers compare member and generation with those of the group only where there are any.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from runtime.connect import kafka_consumer
from tally.config.settings import Settings
from tests.controls.guard import refuse_outside_tests


@contextmanager
def no_member(settings: Settings, group: str) -> Iterator[Callable[[], Any]]:
    """Gives metadata of the group in place of Intake.metadata_now()."""
    refuse_outside_tests(settings)
    with kafka_consumer(settings, group) as consumer:
        yield consumer.consumer_group_metadata
