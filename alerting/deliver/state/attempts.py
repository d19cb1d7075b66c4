"""The retry rules of a message, as pure functions of its record and an answer."""

from typing import Literal

from msgspec import structs

from alerting.deliver.state.records import WebhookMessage
from runtime.outbound.caller import OutboundAnswer
from runtime.outbound.retries import DELAYS, SECOND, AnswerKind, classify_answer, retry_delay

_MINUTE, _HOUR = 60 * SECOND, 3_600 * SECOND
GIVES_UP_AFTER = 72 * _HOUR
# The longest time of an attempt until its answer is stored.
_LAST_ANSWER = _MINUTE
MAX_REFUSALS = 3
_TOO_LATE = "no answer in 72 hours"
_GONE = 410


def classify_webhook_answer(answer: OutboundAnswer) -> AnswerKind | Literal["gone"]:
    """The meaning of an answer for its message; "gone": the address takes nothing any more."""
    return "gone" if answer.status == _GONE else classify_answer(answer)


def begin_attempt(message: WebhookMessage, now: int) -> WebhookMessage:
    """The message with one more attempt, to be stored before the call.

    The record already has the state that holds without an answer, so a crash during the call needs
    no recovery: the message is due again, or unknown if it may be sent at most once.
    """
    first = message.begun_at if message.begun_at is not None else now
    attempts = message.attempts + 1
    due = next_attempt_at(message.message_id, attempts, first, now)
    tried = structs.replace(
        message,
        attempts=attempts,
        begun_at=first,
        due_at=due,
        # An earlier attempt had no answer if the message still may have arrived.
        was_in_doubt=message.was_in_doubt or message.may_have_arrived,
        may_have_arrived=True,
    )
    # Never due again, even if this process crashes.
    if message.promise == "at_most_once":
        return structs.replace(tried, outcome="unknown")
    return tried


def apply_answer(message: WebhookMessage, answer: OutboundAnswer, now: int) -> WebhookMessage:
    """The message after the answer to its last attempt, which `begin_attempt()` had recorded."""
    verdict = classify_webhook_answer(answer)
    after = structs.replace(
        message, status=answer.status, cause=answer.error[:200], is_blocked=verdict == "blocked"
    )
    if verdict == "delivered":
        return structs.replace(after, outcome="delivered", cause="")
    if verdict == "in doubt":
        return _retry(structs.replace(after, was_in_doubt=True), answer, now)
    after = structs.replace(after, may_have_arrived=message.was_in_doubt)
    if verdict == "gone":
        return structs.replace(after, outcome="dead", cause="the receiver wants no more")
    if verdict in ("again", "blocked"):
        return _retry(after, answer, now)
    # Refusals have their own count: a receiver may answer wrongly just after an outage.
    refusals = message.refusals + 1
    after = structs.replace(after, refusals=refusals)
    if refusals >= MAX_REFUSALS:
        return structs.replace(after, outcome="dead", cause=answer.error[:200] or "refused")
    return _retry(after, answer, now)


def _retry(message: WebhookMessage, answer: OutboundAnswer, now: int) -> WebhookMessage:
    if message.promise == "at_most_once":
        # A call that was never made does not count as the single attempt.
        if not (answer.is_refused or answer.is_unsent):
            return structs.replace(message, outcome="unknown" if message.was_in_doubt else "dead")
        message = structs.replace(message, outcome="waiting")
    if _was_last(message):
        return structs.replace(message, outcome="dead", cause=message.cause or _TOO_LATE)
    due = next_attempt_at(message.message_id, message.attempts, _first_attempt_at(message), now)
    if answer.retry_after is not None:
        wait_millis = max(answer.retry_after * SECOND, DELAYS[0])
        # However long the receiver asks for, the last attempt is made at the end.
        requested = now + int(min(wait_millis, GIVES_UP_AFTER))
        due = max(now, min(requested, _deadline(message)))
    return structs.replace(message, due_at=due)


def next_attempt_at(message_id: str, attempts: int, first: int, now: int) -> int:
    """The instant of the retry if an attempt gets no answer now, in milliseconds since 1970.

    The last attempt begins GIVES_UP_AFTER the first, or as soon as a dispatcher runs again. For the
    last attempt the result is the instant at which the message is given up.
    """
    end = first + GIVES_UP_AFTER
    # No dispatcher ran when the last attempt was due, so this attempt is the last.
    if now >= end:
        return now + _LAST_ANSWER
    return min(now + retry_delay(message_id, attempts), end)


def give_up_overdue(message: WebhookMessage, now: int) -> WebhookMessage | None:
    """The message as dead, if its last attempt got no answer in time; else None."""
    if message.begun_at is None or not _was_last(message) or now < message.due_at:
        return None
    return structs.replace(message, outcome="dead", cause=_TOO_LATE)


def _was_last(message: WebhookMessage) -> bool:
    # Only an attempt that began at the end or later has a due time after the end.
    return message.due_at > _deadline(message)


def _deadline(message: WebhookMessage) -> int:
    return _first_attempt_at(message) + GIVES_UP_AFTER


def _first_attempt_at(message: WebhookMessage) -> int:
    return message.due_at if message.begun_at is None else message.begun_at
