"""The modes of calling a system that keeps stock, and the effect of its answers.

    mode              request                                    in doubt
    idempotency_key   change, under the movement's key           the same, while the key lives
    compare_and_set   level; set it if the version still holds   level, and if the tag is known
    absolute          set the level                              the same, and each night

Each request is stored before it is sent, in the state that holds without an answer, so a process
that dies leaves nothing to find out.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from msgspec import structs

from inventory.sync.calls import CallMode, CallOutcome, CallStep, StockCall
from runtime.outbound.caller import OutboundAnswer
from runtime.outbound.retries import SECOND, AnswerKind, classify_answer, retry_delay

HOUR = 3_600 * SECOND
GIVES_UP_AFTER = 72 * HOUR
# The margin before the other system forgets a key: no call may be in flight at that time.
KEY_MARGIN = HOUR
MAX_REFUSALS = 3
_TOO_EARLY, _CONFLICT_STATUSES = 425, (409, 412)


class CallAnswer(OutboundAnswer, frozen=True, kw_only=True):
    """The answer to one call.

    `quantity_milli` and `version` are set for a look, and `is_known` says whether the movement's
    reference is known.
    """

    quantity_milli: int | None = None
    version: str | None = None
    is_known: bool = False


class CallAttempt(NamedTuple):
    """A call as stored while in flight, its request, and whether it was in doubt before.

    `key`: the key that all attempts of the movement share.
    """

    call: StockCall
    step: CallStep
    was_in_doubt: bool
    key: str


def classify_call_answer(answer: CallAnswer, step: CallStep) -> AnswerKind | Literal["moved"]:
    """What an answer says about its call; "moved": the level has another version by now."""
    status = answer.status
    if status in _CONFLICT_STATUSES and step == "set":
        return "moved"
    # The answer to a key whose other attempt is still being processed.
    if status == _TOO_EARLY or (status == _CONFLICT_STATUSES[0] and step == "adjust"):
        return "in doubt"
    return classify_answer(answer)


@dataclass(frozen=True)
class CallRules:
    """The rules of one mode; `gives_up_after`: milliseconds since the first attempt."""

    mode: CallMode
    gives_up_after: int = GIVES_UP_AFTER

    @property
    def first_step(self) -> CallStep:
        """The first request of a call."""
        if self.mode == "compare_and_set":
            return "look"
        return "set" if self.mode == "absolute" else "adjust"

    def key(self, call: StockCall) -> str:
        """The key by which the other system recognises a repeated call."""
        return call.movement_id

    def begin_attempt(self, call: StockCall, now: int) -> CallAttempt:
        """The call with one more attempt, to be stored before it is made."""
        attempt = structs.replace(
            call,
            outcome="called",
            attempts=call.attempts + 1,
            failures=call.failures + 1,
            begun_at=now if call.begun_at is None else call.begun_at,
            due_at=now + retry_delay(call.movement_id, call.failures + 1),
        )
        # A look has no side effect.
        if call.step != "look":
            attempt = structs.replace(attempt, in_doubt=True, step=self.first_step)
        return CallAttempt(attempt, call.step, call.in_doubt, self.key(call))

    def is_over(self, call: StockCall, now: int) -> bool:
        """Whether the call has run out of time, so that no further attempt is made."""
        return call.begun_at is not None and now >= call.begun_at + self.gives_up_after

    def apply_answer(self, attempt: CallAttempt, answer: CallAnswer, now: int) -> StockCall:
        """The call after the answer to its last attempt."""
        # The text of an error may be long, and it is stored with the movement.
        cause = answer.error[:200]
        call = structs.replace(attempt.call, status=answer.status, cause=cause)
        meaning = classify_call_answer(answer, attempt.step)
        # A look is not an outcome: it decides what to set, or shows that it is set already.
        if attempt.step == "look" and meaning == "delivered":
            return self._after_look(call, answer, now)
        if meaning == "delivered":
            return end_call(call, "applied", now, "")
        if meaning == "in doubt":
            return self._retry(call, answer, now)
        # This attempt has certainly changed nothing.
        call = structs.replace(call, in_doubt=attempt.was_in_doubt)
        if meaning == "moved":
            return self._after_conflict(call, now)
        if meaning == "refused" and call.refusals + 1 >= MAX_REFUSALS:
            return self.give_up(call, now, call.cause or "refused")
        refusals = call.refusals + (meaning == "refused")
        return self._retry(structs.replace(call, refusals=refusals), answer, now)

    def is_done(self, answer: CallAnswer) -> bool:
        """Whether a look shows that a call in doubt has arrived."""
        return answer.is_known

    def give_up(self, call: StockCall, now: int, cause: str) -> StockCall:
        """The call ended without a confirmation that it was applied."""
        return end_call(call, "unknown" if call.in_doubt else "refused", now, cause)

    def _after_look(self, call: StockCall, answer: CallAnswer, now: int) -> StockCall:
        if answer.version is None or answer.quantity_milli is None:
            refused = structs.replace(
                call, refusals=call.refusals + 1, cause="no level in the answer"
            )
            if refused.refusals >= MAX_REFUSALS:
                return self.give_up(refused, now, refused.cause)
            return self._retry(refused, answer, now)
        if call.in_doubt and self.is_done(answer):
            return end_call(call, "applied", now, "")
        return structs.replace(
            call,
            step="set",
            version=answer.version,
            quantity_milli=answer.quantity_milli,
            failures=call.failures - 1,
            due_at=now,
        )

    def _after_conflict(self, call: StockCall, now: int) -> StockCall:
        # The call had no version, so a conflict is not an answer that this mode expects.
        if self.mode == "absolute":
            return self._retry(call, CallAnswer(), now)
        return structs.replace(call, step="look", failures=call.failures - 1, due_at=now)

    def _retry(self, call: StockCall, answer: CallAnswer, now: int) -> StockCall:
        # No further attempt: after the key has expired, it would be a second movement.
        if self.is_over(call, now):
            return self.give_up(call, now, call.cause)
        if answer.retry_after is None:
            return structs.replace(call, due_at=now + retry_delay(call.movement_id, call.failures))
        # A longer wait makes no difference: the call runs out of time before.
        wait_millis = int(min(answer.retry_after * SECOND, self.gives_up_after))
        return structs.replace(call, due_at=now + max(wait_millis, SECOND))


def quantity_after(call: StockCall) -> int | None:
    """The level that the call sets, in thousandths; None if it is not known."""
    if call.delta_milli is None:
        return call.level_milli
    return None if call.quantity_milli is None else call.quantity_milli + call.delta_milli


def end_call(call: StockCall, outcome: CallOutcome, now: int, cause: str) -> StockCall:
    """The call ended with an outcome; `now`: ms since 1970 (UTC)."""
    return structs.replace(call, outcome=outcome, ended_at=now, cause=cause)
