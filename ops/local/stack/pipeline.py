"""What `tally doctor` asks of the pipeline itself.

It asks who is behind for how long, what was lost, and which tills used numbers again. Each
check returns what it found, and raises StackError `what; fix` if somebody has to act.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TypeAlias, TypeVar

from cassandra import DriverException
from cassandra.cluster import Session
from cassandra.protocol import ErrorMessage
from confluent_kafka import KafkaException

from ops.conflicts import till_conflicts
from ops.lag import Waiting, read_waiting
from runtime.connect import cassandra_session
from tally.errors import StackError
from tally.settings import Settings

Row = TypeVar("Row")
RowReader: TypeAlias = Callable[[Session], list[Row]]
HOUR_SECONDS = 3600
# What lies further back was told when it was new, and nothing that anybody does makes it go away.
RECENT = timedelta(days=31)
SHOWN = 3


def lag(settings: Settings) -> str:
    """How long the oldest unread records have waited: not yet half as long as they may.

    Raises StackError when they have, or nobody can say.
    """
    try:
        with cassandra_session(settings) as session:
            waiting = read_waiting(settings, session)
    except (KafkaException, DriverException) as error:
        raise StackError(
            f"cannot be read: {error}; look into the logs of kafka and cassandra"
        ) from error
    if late := list(too_late(settings, waiting)):
        raise StackError(
            f"{', '.join(late)};"
            " `tally status` and the logs of these services say why they do not read"
        )
    longest = max(waiting.normaliser, waiting.speed, waiting.master)
    return f"no unread record has waited longer than {longest:.0f} s"


def too_late(settings: Settings, waiting: Waiting) -> Iterator[str]:
    """Each reader whose oldest unread record has waited for more than half of what it may.

    It says what happens then.
    """
    canonical = settings.canonical_retention_hours * HOUR_SECONDS
    limits = {"normaliser": settings.raw_backlog_seconds, "speed": canonical, "master": canonical}
    for name, limit in limits.items():
        seconds = getattr(waiting, name)
        # At half of it there is time left to act.
        if seconds > limit / 2:
            end = (
                "the gateway refuses messages"
                if name == "normaliser"
                else "Kafka drops what it has not read"
            )
            yield f"{name}: a record has waited for {_hours(seconds)}, at {_hours(limit)} {end}"


def gaps(settings: Settings, now: datetime | None = None) -> str:
    """Holes that somebody has accepted: none in the last month. Raises StackError for others."""
    question = "SELECT topic, partition, from_offset, until_offset, noted_at FROM gap"
    rows = _read(settings, lambda session: [*session.execute(question)])
    new = [
        row
        for row in rows
        if row.noted_at.replace(tzinfo=UTC) > (now or datetime.now(UTC)) - RECENT
    ]
    if new:
        where = ", ".join(
            f"{row.topic}-{row.partition} {row.from_offset} to {row.until_offset}"
            for row in new[:SHOWN]
        )
        raise StackError(
            f"{len(new)} in the last {RECENT.days} days: {where};"
            " send again what was lost; `tally audit` names them all"
        )
    return f"none in the last {RECENT.days} days, {len(rows)} in all"


def tills(settings: Settings, now: datetime | None = None) -> str:
    """Tills with receipts of a number used before: none of the last month is open.

    Raises StackError that names those there are.
    """
    found = _read(settings, till_conflicts)
    since = str(((now or datetime.now(UTC)) - RECENT).date())
    new = [one for one in found if one.is_open and one.day > since]
    if new:
        who = ", ".join(
            f"store {one.store_id} till {one.till_id} on {one.day}"
            f" ({one.conflicts} of {one.records})"
            for one in new[:SHOWN]
        )
        raise StackError(
            f"receipts bear numbers used before: {who};"
            " `tally conflicts list` says what to do with each"
        )
    return f"no conflict of the last {RECENT.days} days is open"


def _read(settings: Settings, read: RowReader[Row]) -> list[Row]:
    try:
        with cassandra_session(settings) as session:
            return read(session)
    except (DriverException, ErrorMessage) as error:
        raise StackError(f"cassandra: {error}; look into its log") from error


def _hours(seconds: float) -> str:
    return f"{seconds / HOUR_SECONDS:.1f} h"
