"""The errors of Tally: each says what is wrong, where, and what to do about it."""

from collections.abc import Iterable
from typing import Literal


class TallyError(Exception):
    """Raised when Tally cannot go on; the message is one line: what, where, the fix."""


class Refused(TallyError):
    """Raised when a new start of the process would end the same way.

    Somebody has to decide or to correct something first.
    """


class BadSettings(Refused):
    """Raised when a setting of the environment does not fit; the message names each variable."""


class BadInstant(TallyError):
    """Raised when a text is no instant; `kind` says what is wrong with it."""

    def __init__(self, kind: Literal["not_rfc3339", "without_zone"], message: str) -> None:
        super().__init__(message)
        self.kind = kind


class RejectedEvent(TallyError):
    """Raised when one message breaks its contract.

    `reason` is a dead-letter reason of schemas/topics.yaml, `field` a JSON pointer ("" for the
    whole message).
    """

    def __init__(self, reason: str, field: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.field = field
        self.message = message


class FailedReading(RejectedEvent):
    """Raised when an error of Tally's own ended the reading of one message; it names its kind."""

    def __init__(self, error: Exception) -> None:
        kind = type(error).__name__
        super().__init__("reading_failed", "", f"the event cannot be read: {kind} while reading it")


class StackError(TallyError):
    """Raised when a local service cannot be started, reached or stopped."""


class RestartNeeded(StackError):
    """Raised when a service runs with less than it has on disk; a restart brings the rest."""


class Fenced(Refused):
    """Raised when a newer instance has taken over.

    The process must exit and never make a new producer.
    """


class OutcomeUnknown(TallyError):
    """Raised when a transaction may or may not have been committed.

    State must be read again from the brokers.
    """


class Aborted(TallyError):
    """Raised when a transaction was aborted.

    Memory must be forgotten and positions read again from the brokers.
    """


class NotYet(TallyError):
    """Raised when something cannot be found out now, and nothing was changed in trying.

    Memory stays as it is, and the same is asked again.
    """


class NotSent(TallyError):
    """Raised when Kafka did not acknowledge everything that it was given.

    Sent again, some of it may be there twice.
    """


class Unanswered(TallyError):
    """Raised when Cassandra did not answer in time; asked again it may."""


class Unacknowledged(Unanswered):
    """Raised when Cassandra did not acknowledge a write in time.

    Written again later it changes nothing.
    """


class DataLoss(Refused):
    """Raised when promised records are no longer in Kafka (retention, or a topic created anew)."""


class AlreadyRunning(TallyError):
    """Raised when another process holds the lock of a checkpoint or of the master dataset."""


class FlipRefused(TallyError):
    """Raised when a rebuild may not publish.

    A newer token is there, or its pinned offsets are behind.
    """


class FlipRaced(FlipRefused):
    """Raised when a write to the pointers was not applied, or nobody knows.

    What stands is read again, with SERIAL consistency.
    """


class BadQuery(TallyError):
    """Raised when a question to the API cannot be answered as it is asked.

    `field` names the parameter; `nearest`: values of the field, as text, that could be answered.
    """

    def __init__(
        self,
        field: str,
        message: str,
        nearest: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.field = field
        self.message = message
        self.nearest = nearest


class AnswerMoved(TallyError):
    """Raised when a generation was published between two pages of an answer.

    The answer has to be asked for from the start.
    """


class UnknownName(TallyError):
    """Raised when a store, metric or report does not exist; `field` names the parameter."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


class ViewsUnreachable(TallyError):
    """Raised when the serving tables cannot be read; the answer would have a silent hole."""


class SimulationsBusy(ViewsUnreachable):
    """Raised when too many simulations wait; as beside away tables there is no answer now."""


class KeysUnreachable(TallyError):
    """Raised when there is no key to hash a device's address with; nothing of it may go on."""


class AddressRefused(TallyError):
    """Raised when an address is none that a webhook may be called at."""


class Busy(TallyError):
    """Raised when too much is under way; nothing of the request was stored."""


class NotStored(TallyError):
    """Raised when the brokers did not acknowledge everything.

    An unknown part of the request was stored.
    """


class NotTaken(TallyError):
    """Raised when the gateway takes a body later, or is not there; nothing of it is lost.

    `wait_seconds`: it wants to be asked no sooner. `is_away`: nobody answered.
    """

    def __init__(
        self,
        message: str,
        wait_seconds: float = 0.0,
        *,
        is_away: bool = False,
    ) -> None:
        super().__init__(message)
        self.wait_seconds = wait_seconds
        self.is_away = is_away


class BadRule(TallyError):
    """Raised when a rule of alerts is none; `problems`: one line each: field, what, the fix."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


class RuleConflict(TallyError):
    """Raised when somebody else has written the versions `lost` first; all others are stored."""

    def __init__(self, message: str, lost: tuple[str, ...]) -> None:
        super().__init__(message)
        self.lost = lost


class AlertNotOpen(TallyError):
    """Raised when an alert is to be resolved that is not open; nothing was written."""


class EditsRefused(TallyError):
    """Raised when a setting refuses changes from where they are asked for; nothing was written."""


class FileChanged(TallyError):
    """Raised when a dropped file is another one than was looked at; it stays for the next look."""


class DropUnusable(Refused):
    """Raised when files cannot be dropped in a folder; the message says what has to be changed."""


class Forbidden(TallyError):
    """Raised when a sender does not know the secret of its path; nothing of it was stored."""


class TooMuch(TallyError):
    """Raised when a body is beyond a limit; nothing of it was stored."""


class TooManyInARow(TallyError):
    """Raised into the parser of HTTP, which ends the connection with 400."""
