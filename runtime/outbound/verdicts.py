"""The meaning of an answer for its message."""

from typing import Literal

from runtime.outbound.caller import OutboundAnswer

_TIMED_OUT, _OVERLOADED = 408, 429
# Causes are expired tokens, missing rights or a receiver being deployed, which people repair.
_BLOCKED_STATUSES = (401, 403, 404)
# Only the receiver's status decides the meaning; a result without one is in doubt.
AnswerKind = Literal["delivered", "refused", "blocked", "again", "in doubt"]


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
