"""When a message is called for again, and when no more: of its record and an answer alone."""

from typing import Literal

from msgspec import Struct, structs

from tally.alerts.delivery.records import WebhookMessage
from tally.backoff import DELAYS, SECOND, spread_delay

_MINUTE, _HOUR = 60 * SECOND, 3_600 * SECOND
GIVES_UP_AFTER = 72 * _HOUR
# So long an attempt may take, and its answer until it is stored.
_LAST_ANSWER = _MINUTE
MOST_REFUSALS = 3
_TOO_LATE = "no answer in 72 hours"
GONE, _OVERLOADED = 410, 429
_AGAIN = (408, _OVERLOADED)
# Expired tokens, missing rights, a receiver that is just being deployed: people repair these.
_BLOCKED = (401, 403, 404)


class WebhookAnswer(Struct, frozen=True, kw_only=True):
    """What came of one call: a status, or none and why.

    `retry_after`: seconds that the receiver asks for; `is_refused`: no call was made because of a
    fault of our own side (secrets, address, permissions); `is_unsent`: no connection was made.
    """

    status: int | None = None
    retry_after: float | None = None
    error: str = ""
    is_refused: bool = False
    is_unsent: bool = False


# What a status means is the receiver's to say; what it does not say is in doubt.
Meaning = Literal["delivered", "gone", "refused", "blocked", "again", "in doubt"]


def meaning(answer: WebhookAnswer) -> Meaning:
    """What an answer says of its message.

    "again": the receiver has not taken it; "blocked": neither, until somebody repairs secrets,
    address or permissions; "in doubt": it may have. Redirects are refusals: nobody has checked
    where they lead.
    """
    status = answer.status
    if answer.is_refused or status in _BLOCKED:
        return "blocked"
    if answer.is_unsent:
        return "again"
    if status is None or status >= 500 or status < 200:
        return "in doubt"
    if status < 300:
        return "delivered"
    # One that has had too much has not taken it; one that was too slow may have.
    if status in _AGAIN:
        return "again" if status == _OVERLOADED else "in doubt"
    return "gone" if status == GONE else "refused"


def begun(message: WebhookMessage, now: int) -> WebhookMessage:
    """The message with one more attempt; to be stored before the call.

    It says already what holds without an answer, so a process that dies in the call leaves nothing
    to be found out: it is due again, or, where it is to be called for at most once, unknown.
    """
    first = message.begun_at if message.begun_at is not None else now
    attempts = message.attempts + 1
    due = due_again(message.message_id, attempts, first, now)
    tried = structs.replace(
        message,
        attempts=attempts,
        begun_at=first,
        due_at=due,
        # Of an attempt before this one nobody has heard, if it still may have arrived.
        was_in_doubt=message.was_in_doubt or message.may_have_arrived,
        may_have_arrived=True,
    )
    # Never due again, whatever becomes of this process.
    if message.promise == "at_most_once":
        return structs.replace(tried, outcome="unknown")
    return tried


def answered(message: WebhookMessage, answer: WebhookAnswer, now: int) -> WebhookMessage:
    """The message after the answer to its last attempt, which began as `begun()` says."""
    said = meaning(answer)
    told = structs.replace(
        message,
        status=answer.status,
        cause=answer.error[:200],
        is_blocked=said == "blocked",
    )
    if said == "delivered":
        return structs.replace(told, outcome="delivered", cause="")
    if said == "in doubt":
        return _later(structs.replace(told, was_in_doubt=True), answer, now)
    told = structs.replace(told, may_have_arrived=message.was_in_doubt)
    if said == "gone":
        return structs.replace(told, outcome="dead", cause="the receiver wants no more")
    if said in ("again", "blocked"):
        return _later(told, answer, now)
    # Counted apart: a receiver that was away may answer wrongly as soon as it is back.
    refusals = message.refusals + 1
    told = structs.replace(told, refusals=refusals)
    if refusals >= MOST_REFUSALS:
        return structs.replace(told, outcome="dead", cause=answer.error[:200] or "refused")
    return _later(told, answer, now)


def _later(message: WebhookMessage, answer: WebhookAnswer, now: int) -> WebhookMessage:
    if message.promise == "at_most_once":
        # A call that never left does not count as the one call.
        if not (answer.is_refused or answer.is_unsent):
            return structs.replace(message, outcome="unknown" if message.was_in_doubt else "dead")
        message = structs.replace(message, outcome="waiting")
    if _was_last(message):
        return structs.replace(message, outcome="dead", cause=message.cause or _TOO_LATE)
    due = due_again(message.message_id, message.attempts, _first(message), now)
    if answer.retry_after is not None:
        wanted = max(answer.retry_after * SECOND, DELAYS[0])
        # Whatever it asks for, and however much: the last attempt is made at the end.
        asked = now + int(min(wanted, GIVES_UP_AFTER))
        due = max(now, min(asked, _end(message)))
    return structs.replace(message, due_at=due)


def due_again(message_id: str, attempts: int, first: int, now: int) -> int:
    """When an attempt that gets no answer now is made again, in milliseconds since 1970.

    The last one begins GIVES_UP_AFTER the first, or as soon as somebody is there; what is told of
    it is then when it is given up.
    """
    end = first + GIVES_UP_AFTER
    # Nobody was there for the last attempt when it was due: this is it.
    if now >= end:
        return now + _LAST_ANSWER
    return min(now + spread_delay(message_id, attempts), end)


def given_up(message: WebhookMessage, now: int) -> WebhookMessage | None:
    """The message as a dead one, when its last attempt has got no answer; else None."""
    if message.begun_at is None or not _was_last(message) or now < message.due_at:
        return None
    return structs.replace(message, outcome="dead", cause=_TOO_LATE)


def _was_last(message: WebhookMessage) -> bool:
    # Only an attempt that began at the end, or later, is due after it.
    return message.due_at > _end(message)


def _end(message: WebhookMessage) -> int:
    return _first(message) + GIVES_UP_AFTER


def _first(message: WebhookMessage) -> int:
    return message.due_at if message.begun_at is None else message.begun_at
