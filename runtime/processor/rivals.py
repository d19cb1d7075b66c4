"""The check whether a fenced process has a rival.

The brokers fence a process whose transaction has timed out with the same error.
"""

import time

from runtime.connect import kafka_admin
from runtime.processor.build import ProcessorJob
from tally.config.settings import Settings
from tally.errors import ProducerFenced, TallyError

_SECONDS = 30.0
# Longer than the session of a dead member: the members left after that are alive.
GRACE_SECONDS = 8.0


def classify_fencing(settings: Settings, job: ProcessorJob, error: ProducerFenced) -> TallyError:
    """The error itself if another process works in the same slot, else one that a restart heals.

    The caller must have left its group. Raises KafkaException when the brokers do not answer.
    """
    time.sleep(GRACE_SECONDS)
    admin = kafka_admin(settings)
    described = admin.describe_consumer_groups([job.group], request_timeout=_SECONDS)
    members = described[job.group].result(_SECONDS).members
    if any(member.client_id == job.identity for member in members):
        return error
    return TallyError(
        f"{job.identity}: a transaction was open for too long and was ended by the brokers;"
        " start the process again"
    )
