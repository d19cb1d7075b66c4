"""Whether a fenced process has a rival: the brokers fence one whose transaction has timed out in the same words."""

import time

from confluent_kafka.admin import AdminClient

from tally.errors import Fenced, TallyError
from tally.settings import Settings

_SECONDS = 30.0
# Longer than the session of a member that has died: whoever is in the group after that is alive.
PATIENCE_SECONDS = 8.0


def fenced_or_late(settings: Settings, group: str, error: Fenced) -> TallyError:
    """The error itself when another process works in the group; one that a new start heals when there is none.

    For a process that has left its group. Raises KafkaException when the brokers do not answer.
    """
    time.sleep(PATIENCE_SECONDS)
    admin = AdminClient({"bootstrap.servers": settings.kafka})
    members = admin.describe_consumer_groups([group], request_timeout=_SECONDS)[group].result(_SECONDS).members
    if members:
        return error
    return TallyError(f"{group}: a transaction was open for too long and was ended by the brokers; start the process again")
