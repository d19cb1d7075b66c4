"""The errors of Tally: each says what is wrong, where, and what to do about it."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal


class TallyError(Exception):
    """Raised when Tally cannot go on; the message is one line: what, where, the fix."""


class UnrecoverableError(TallyError):
    """Raised when a new start would end the same way, unless an operator corrects something."""


class BadSettings(UnrecoverableError):
    """Raised when a setting of the environment does not fit; the message names each variable."""


class BadInstant(TallyError):
    """Raised when a text is not an instant; `kind` says what is wrong with it."""

    def __init__(self, kind: Literal["not_rfc3339", "without_zone"], message: str) -> None:
        super().__init__(message)
        self.kind = kind


class _NamedFieldError(TallyError):
    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field, self.message = field, message


class RejectedEvent(_NamedFieldError):
    """Raised when one message breaks its contract.

    `reason` is a dead-letter reason of schemas/topics.yaml, `field` a JSON pointer ("": all).
    """

    def __init__(self, reason: str, field: str, message: str) -> None:
        super().__init__(field, message)
        self.reason = reason


class InternalReadError(RejectedEvent):
    """Raised when an error of Tally's own ended the reading of one message; it names its kind."""

    def __init__(self, error: Exception) -> None:
        kind = type(error).__name__
        super().__init__("reading_failed", "", f"the event cannot be read: {kind} while reading it")


class StackError(TallyError):
    """Raised when a local service cannot be started, reached or stopped."""


class RestartNeeded(StackError):
    """Raised when a service runs with less than it has on disk; a restart brings the rest."""


class ProducerFenced(UnrecoverableError):
    """Raised when a newer instance has taken over: the process must exit, and produce no more."""


class OutcomeUnknown(TallyError):
    """Raised when a transaction may be committed or not; state must be read from the brokers."""


class TransactionAborted(TallyError):
    """Raised when a transaction was aborted; state and positions must be read again."""


class RetryLater(TallyError):
    """Raised when something cannot be found out now; nothing has changed, so ask again."""


class SendFailed(TallyError):
    """Raised when Kafka did not acknowledge everything; after a retry some may be there twice."""


class CassandraTimeout(TallyError):
    """Raised when Cassandra did not answer in time; a retry may succeed."""


class CassandraWriteTimeout(CassandraTimeout):
    """Raised when Cassandra did not acknowledge a write in time; a later retry is idempotent."""


class DataLoss(UnrecoverableError):
    """Raised when promised records are no longer in Kafka (retention, or a re-created topic)."""


class AlreadyRunning(TallyError):
    """Raised when another process holds the lock of a checkpoint or of the master dataset."""


class PublicationRefused(TallyError):
    """Raised when a rebuild may not publish, as what is served is newer than what it has."""


class Superseded(PublicationRefused):
    """Raised when other runs have published all days of a rebuild while it worked."""


class PublicationConflict(PublicationRefused):
    """Raised when a write to the pointers was not applied, or its outcome is unknown.

    The pointers are read again, with SERIAL consistency.
    """


class BadQuery(_NamedFieldError):
    """Raised when a request to the API cannot be answered as it stands.

    `field` names the parameter; `nearest`: values of the field, as text, that could be answered.
    """

    def __init__(
        self,
        field: str,
        message: str,
        nearest: tuple[str, ...] = (),
    ) -> None:
        super().__init__(field, message)
        self.nearest = nearest


class AnswerChanged(TallyError):
    """Raised when a generation was published between two pages; the first is to be asked again."""


class UnknownName(_NamedFieldError):
    """Raised when a store, metric or report does not exist; `field` names the parameter."""


class ViewsUnreachable(TallyError):
    """Raised when the serving tables cannot be read; the answer would have a silent hole."""


class SimulationsBusy(ViewsUnreachable):
    """Raised when too many simulations wait; as with unreachable tables, there is no answer now."""


class KeysUnreachable(TallyError):
    """Raised when no key is there to hash a device's address with; it must not be passed on."""


class AddressRefused(TallyError):
    """Raised when a webhook must not be called at an address."""


class Busy(TallyError):
    """Raised when too many requests are in progress; nothing of this one was stored."""


class NotStored(TallyError):
    """Raised when the brokers did not acknowledge all; an unknown part of the request is stored."""


class GatewayUnavailable(TallyError):
    """Raised when the gateway takes a body later, or is not there; nothing of it is lost.

    `wait_seconds`: the least time before a retry. `is_away`: no answer came.
    """

    def __init__(self, message: str, wait_seconds: float = 0.0, is_away: bool = False) -> None:
        super().__init__(message)
        self.wait_seconds, self.is_away = wait_seconds, is_away


class BodyRefused(TallyError):
    """Raised when the gateway took nothing of a body and never will; `problem`: its answer."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        self.problem = problem
        status = f" ({problem['status']})" if "status" in problem else ""
        super().__init__(f"the gateway refused a body{status}: {problem.get('detail', problem)}")


class BadRule(TallyError):
    """Raised when an alert rule is invalid; `problems`, a line each: field, what, the fix."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


class RuleConflict(TallyError):
    """Raised when another writer has written the versions `lost` first; all others are stored."""

    def __init__(self, message: str, lost: tuple[str, ...]) -> None:
        super().__init__(message)
        self.lost = lost


class AlertNotOpen(TallyError):
    """Raised when an alert to be resolved is not open; nothing was written."""


class EditsRefused(TallyError):
    """Raised when a setting forbids changes from the requesting side; nothing was written."""


class FileChanged(TallyError):
    """Raised when a dropped file changed after it was inspected; it stays for the next scan."""


class DropUnusable(UnrecoverableError):
    """Raised when files cannot be dropped in a folder; the message says what has to be changed."""


class Forbidden(TallyError):
    """Raised when a sender does not know the secret of its path; nothing of it was stored."""


class BodyTooLarge(TallyError):
    """Raised when a body is beyond a limit; nothing of it was stored."""


class TooManyInARow(TallyError):
    """Raised inside the HTTP parser, which ends the connection with 400."""


class ApiError(TallyError):
    """Raised when the API refuses a question, with its own reason; without `status`: no answer."""

    def __init__(
        self,
        caller: str,
        url: str,
        reason: str,
        status: int | None = None,
    ) -> None:
        super().__init__(f"{caller}: {reason if status is None else f'{status} {reason}'}")
        self.url, self.reason, self.status = url, reason, status
