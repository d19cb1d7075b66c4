"""The retry rules of a message, and the limits of concurrent calls.

The rules are pure functions of the message's record and an answer. The limits are for the process,
for each address, and one for an address whose calls failed OPENS_AFTER times in a row.
"""

from collections import Counter
from collections.abc import Iterable
from urllib.parse import urlsplit

from msgspec import structs

from alerting.deliver.state.records import WebhookMessage
from runtime.outbound.caller import DELAYS, SECOND, OutboundAnswer, classify_answer, retry_delay

GIVES_UP_AFTER = 72 * 3_600 * SECOND
# The longest time of an attempt until its answer is stored.
_LAST_ANSWER = 60 * SECOND
MAX_REFUSALS = 3
_TOO_LATE, WANTS_NO_MORE = "no answer in 72 hours", "the receiver wants no more"
# The status of an address that takes nothing any more.
GONE = 410


def begin_attempt(message: WebhookMessage, now: int) -> WebhookMessage:
    """The message with one more attempt, to be stored before the call.

    The record already has the state that holds without an answer, so a crash during the call needs
    no recovery: the message is due again, or unknown if it may be sent at most once.
    """
    tried = structs.replace(
        message,
        attempts=message.attempts + 1,
        begun_at=now if message.begun_at is None else message.begun_at,
        # An earlier attempt had no answer if the message still may have arrived.
        was_in_doubt=message.was_in_doubt or message.may_have_arrived,
        may_have_arrived=True,
        # Never due again, even if this process crashes.
        outcome="unknown" if message.promise == "at_most_once" else message.outcome,
    )
    return structs.replace(tried, due_at=_next_attempt_at(tried, now))


def apply_answer(message: WebhookMessage, answer: OutboundAnswer, now: int) -> WebhookMessage:
    """The message after the answer to its last attempt, which `begin_attempt()` had recorded."""
    verdict = classify_answer(answer)
    after = structs.replace(
        message, status=answer.status, cause=answer.error[:200], is_blocked=verdict == "blocked"
    )
    if verdict == "delivered":
        return structs.replace(after, outcome="delivered", cause="")
    if verdict == "in doubt":
        return _retry(structs.replace(after, was_in_doubt=True), answer, now)
    after = structs.replace(after, may_have_arrived=message.was_in_doubt)
    if answer.status == GONE:
        return structs.replace(after, outcome="dead", cause=WANTS_NO_MORE)
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
    due = _next_attempt_at(message, now)
    if answer.retry_after is not None:
        wait_millis = max(answer.retry_after * SECOND, DELAYS[0])
        # However long the receiver asks for, the last attempt is made at the end.
        requested = now + int(min(wait_millis, GIVES_UP_AFTER))
        due = max(now, min(requested, _deadline(message)))
    return structs.replace(message, due_at=due)


def _next_attempt_at(message: WebhookMessage, now: int) -> int:
    """The instant of the retry if an attempt gets no answer now, in milliseconds since 1970.

    The last attempt begins GIVES_UP_AFTER the first, or as soon as a dispatcher runs again. For the
    last attempt the result is the instant at which the message is given up.
    """
    end = _deadline(message)
    # No dispatcher ran when the last attempt was due, so this attempt is the last.
    if now >= end:
        return now + _LAST_ANSWER
    return min(now + retry_delay(message.message_id, message.attempts), end)


def give_up_overdue(message: WebhookMessage, now: int) -> WebhookMessage | None:
    """The message as dead, if its last attempt got no answer in time; else None."""
    if message.begun_at is None or not _was_last(message) or now < message.due_at:
        return None
    return structs.replace(message, outcome="dead", cause=_TOO_LATE)


def _was_last(message: WebhookMessage) -> bool:
    # Only an attempt that began at the end or later has a due time after the end.
    return message.due_at > _deadline(message)


def _deadline(message: WebhookMessage) -> int:
    return message.first_attempt_at + GIVES_UP_AFTER


# The most concurrent calls to one address, and in the whole process.
MAX_ADDRESS_CALLS, MAX_CALLS = 8, 64
# After this number of failures in a row an address gets one call at a time.
OPENS_AFTER = 5


class CircuitBreakers:
    """The circuit breakers of all addresses, as counts of failures in a row.

    An open breaker lets a single call pass at a time, and the first success closes it. The counts
    are only in memory: after a restart an address has OPENS_AFTER calls until its breaker opens.
    """

    def __init__(self) -> None:
        self._failures: Counter[str] = Counter()

    def record_answer(self, url: str, answer: OutboundAnswer) -> None:
        """Counts the result of a call; a status that decides the message's outcome is a success."""
        has_failed = classify_answer(answer) in ("blocked", "again", "in doubt")
        self._failures[url_origin(url)] = self._failures[url_origin(url)] + 1 if has_failed else 0

    def max_calls(self, address: str) -> int:
        """The most concurrent calls to an address."""
        return 1 if self._failures[address] >= OPENS_AFTER else MAX_ADDRESS_CALLS


class CallCapacity:
    """The remaining capacity for calls, over all partitions of the process."""

    def __init__(self, under_way: Iterable[str], breakers: CircuitBreakers) -> None:
        self._calls = Counter(map(url_origin, under_way))
        self._breakers = breakers

    def reserve(self, message: WebhookMessage) -> bool:
        """Takes a place for one more call; returns whether there was one."""
        address = url_origin(message.url)
        is_full = self._calls.total() >= MAX_CALLS
        if is_full or self._calls[address] >= self._breakers.max_calls(address):
            return False
        self._calls[address] += 1
        return True


def url_origin(url: str) -> str:
    """The scheme, host and port of a URL, which several channels may share.

    >>> url_origin("https://tablet.example:8443/alerts?a=b")
    'https://tablet.example:8443'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
