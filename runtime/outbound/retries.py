"""The meaning of an answer for its message, and the delays after which a call is retried."""

from hashlib import sha256
from typing import Literal

from runtime.outbound.caller import OutboundAnswer

SECOND = 1_000
_MINUTE, _HOUR = 60 * SECOND, 3_600 * SECOND
# Milliseconds after each attempt; the last one repeats.
DELAYS = (
    *(5 * SECOND, 30 * SECOND, 2 * _MINUTE, 10 * _MINUTE),
    *(_HOUR, 3 * _HOUR, 6 * _HOUR),
)
JITTER = 0.2
_TIMED_OUT, _OVERLOADED = 408, 429
# Causes are expired tokens, missing rights or a receiver being deployed, which people repair.
_BLOCKED_STATUSES = (401, 403, 404)
# Only the receiver's status decides the meaning; a result without one is in doubt.
AnswerKind = Literal["delivered", "refused", "blocked", "again", "in doubt"]


def retry_delay(name: str, attempts: int) -> int:
    """Milliseconds until the next retry, after `attempts` (one or more) at a call of this name."""
    delay = DELAYS[min(attempts, len(DELAYS)) - 1]
    # By the name and not at random: a process that restores the state computes the same delay.
    digest = sha256(f"{name}|{attempts}".encode()).digest()
    share = int.from_bytes(digest[:4]) / 0xFFFFFFFF
    return int(delay * (1 - JITTER + 2 * JITTER * share))


def classify_answer(answer: OutboundAnswer) -> AnswerKind:
    """The meaning of an answer.

    "again": the receiver has not accepted the message; "blocked": nor will it, until secrets,
    address or permissions are repaired; "in doubt": it may have accepted it. Redirects are
    refusals, because their targets are not checked.
    """
    status = answer.status
    if answer.is_refused or status in _BLOCKED_STATUSES:
        return "blocked"
    # An overloaded receiver has not accepted the message; one that timed out may have.
    if answer.is_unsent or status == _OVERLOADED:
        return "again"
    if status is None or status >= 500 or status < 200 or status == _TIMED_OUT:
        return "in doubt"
    return "delivered" if status < 300 else "refused"
