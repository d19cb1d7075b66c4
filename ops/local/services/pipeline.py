"""The checks of `tally doctor` for the pipeline itself.

They check the lag of the readers, lost records, and tills that used numbers again. Each check
returns its finding, and raises StackError `what; fix` if an operator has to act.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TypeAlias, TypeVar

from cassandra import DriverException
from cassandra.cluster import Session
from cassandra.protocol import ErrorMessage
from confluent_kafka import KafkaException

from ops.conflicts import till_conflicts
from ops.lag import WaitingSeconds, read_waiting
from runtime.connect import cassandra_session
from runtime.records.gaps import read_gaps
from tally.config.settings import Settings
from tally.errors import StackError

Row = TypeVar("Row")
RowReader: TypeAlias = Callable[[Session], list[Row]]
HOUR_SECONDS = 3600
# Older findings were reported when they were new, and no action can remove them.
RECENT = timedelta(days=31)
SHOWN = 3


def lag(settings: Settings) -> str:
    """The longest wait of an unread record, as text, if it is below half of its limit.

    Raises StackError when it is above, or cannot be determined.
    """
    try:
        with cassandra_session(settings) as session:
            waiting = read_waiting(settings, session)
    except (KafkaException, DriverException) as error:
        raise StackError(
            f"cannot be read: {error}; look into the logs of kafka and cassandra"
        ) from error
    if late := list(late_readers(settings, waiting)):
        raise StackError(
            f"{', '.join(late)};"
            " `tally status` and the logs of these services say why they do not read"
        )
    longest = max(waiting.normaliser, waiting.speed, waiting.master)
    return f"no unread record has waited longer than {longest:.0f} s"


def late_readers(settings: Settings, waiting: WaitingSeconds) -> Iterator[str]:
    """Yield each reader whose oldest unread record has waited for more than half of the limit.

    The text names the consequence at the limit.
    """
    canonical = settings.canonical_retention_hours * HOUR_SECONDS
    limits = {"normaliser": settings.raw_backlog_seconds, "speed": canonical, "master": canonical}
    for name, limit in limits.items():
        seconds = getattr(waiting, name)
        # At half of the limit there is time left to act.
        if seconds > limit / 2:
            end = (
                "the gateway refuses messages"
                if name == "normaliser"
                else "Kafka drops what it has not read"
            )
            yield f"{name}: a record has waited for {_hours(seconds)}, at {_hours(limit)} {end}"


def gaps(settings: Settings, now: datetime | None = None) -> str:
    """A text about accepted gaps. Raises StackError if one was accepted in the last 31 days."""
    accepted = _read(settings, read_gaps)
    since = (now or datetime.now(UTC)) - RECENT
    new = [gap for gap in accepted if gap.noted_at > since]
    if new:
        where = ", ".join(
            f"{gap.topic}-{gap.partition} {gap.from_offset} to {gap.until_offset}"
            for gap in new[:SHOWN]
        )
        raise StackError(
            f"{len(new)} in the last {RECENT.days} days: {where};"
            " send again what was lost; `tally audit` names them all"
        )
    return f"none in the last {RECENT.days} days, {len(accepted)} in all"


def tills(settings: Settings, now: datetime | None = None) -> str:
    """A text about tills that used receipt numbers again.

    Raises StackError, with the tills, if a conflict of the last 31 days is open.
    """
    found = _read(settings, till_conflicts)
    since = str(((now or datetime.now(UTC)) - RECENT).date())
    new = [till for till in found if till.is_open and till.day > since]
    if new:
        who = ", ".join(
            f"store {till.store_id} till {till.till_id} on {till.day}"
            f" ({till.conflicts} of {till.records})"
            for till in new[:SHOWN]
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
