"""The calls to a system that keeps stock: the records of the topic `stock-calls` and their keys,
and the modes of calling.

    <movement_id>             a movement, the number of its calls, and their outcome
    level|<store>|<item>      the level of an article a week ago; older movements are forgotten
    reconciled                the day (UTC) of the last reconciliation
    tick                      the time of the last tick

    mode              request                                    in doubt
    idempotency_key   change, under the movement's key           the same, while the key lives
    compare_and_set   level; set it if the version still holds   level, and if the tag is known
    absolute          set the level                              the same, and each night

Each request is stored before it is sent, in the state that holds without an answer, so a process
that dies leaves nothing to find out. Instants are milliseconds since 1970 (UTC), by ticks; amounts
are in thousandths.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct, structs

from inventory.movements.movement import MovementKind, instant_millis, lane_key
from runtime.outbound.caller import SECOND, AnswerKind, OutboundAnswer, classify_answer, retry_delay
from runtime.outbound.engine import DroppedRecord, RecordCodec, TickTime

CallMode: TypeAlias = Literal["idempotency_key", "compare_and_set", "absolute"]
# The request to the other system: change a level by an amount, read a level, or set one.
CallStep: TypeAlias = Literal["adjust", "look", "set"]
CallOutcome: TypeAlias = Literal["intent", "called", "applied", "refused", "unknown", "overruled"]
CallKind: TypeAlias = MovementKind | Literal["reconciliation"]
OPEN_OUTCOMES: tuple[CallOutcome, ...] = ("intent", "called")


class StockCall(Struct, frozen=True, kw_only=True, tag_field="is", tag="call"):
    """One movement on its way to the other system.

    `brought`: the movement as the part Level takes it; None for a reconciliation, and for a
    movement that a later count already includes.
    `delta_milli`: the change of the level, None if the call sets `level_milli`, which is the level
    after the movement and None before the first count. `step`: the next request. `attempts`: the
    calls of all steps; `failures`: those without progress. `in_doubt`: a call that changes
    something may have arrived. `version`, `quantity_milli`: the last answer of the other system.
    """

    movement_id: str
    store_id: str
    item_id: str
    kind: CallKind
    happened_at: str
    brought: int | None
    delta_milli: int | None
    level_milli: int | None
    order: int
    step: CallStep
    due_at: int
    outcome: CallOutcome = "intent"
    attempts: int = 0
    failures: int = 0
    refusals: int = 0
    begun_at: int | None = None
    ended_at: int | None = None
    in_doubt: bool = False
    version: str | None = None
    quantity_milli: int | None = None
    status: int | None = None
    cause: str = ""

    @property
    def key(self) -> str:
        """Its key in the topic."""
        return self.movement_id

    @property
    def lane(self) -> str:
        """The lane of its article; of two calls in a lane, the earlier one ends first."""
        return lane_key(self.store_id, self.item_id)

    @property
    def lane_keys(self) -> tuple[str, ...]:
        """Its lane alone."""
        return (self.lane,)

    @property
    def millis(self) -> int:
        """When the movement happened, milliseconds since 1970 (UTC)."""
        return instant_millis(self.happened_at)


class LaneLevel(Struct, frozen=True, kw_only=True, tag_field="is", tag="level"):
    """The level of an article at an instant, by the earlier movements of calls up to `order`.

    Later movements are in the records of their calls, so this record need not be rewritten with
    each of them. `level_milli`: None before the first count; `counted_at`: its last count, or 0.
    """

    store_id: str
    item_id: str
    at: int
    level_milli: int | None
    counted_at: int
    order: int

    @property
    def key(self) -> str:
        """Its key in the topic."""
        return f"level|{self.lane}"

    @property
    def lane(self) -> str:
        """The lane of its article."""
        return lane_key(self.store_id, self.item_id)


class ReconciledDay(Struct, frozen=True, kw_only=True, tag_field="is", tag="reconciled"):
    """The day (UTC) on which all levels were last set."""

    day: str

    @property
    def key(self) -> str:
        """Its key in the topic."""
        return "reconciled"


StoredCall: TypeAlias = StockCall | LaneLevel | ReconciledDay | TickTime
CallChange: TypeAlias = StoredCall | DroppedRecord
CODEC: RecordCodec[StoredCall] = RecordCodec(StoredCall, lambda record: record.key)
call_key, encode_call, decode_call = CODEC.key, CODEC.encode, CODEC.decode


HOUR = 3_600 * SECOND
GIVES_UP_AFTER = 72 * HOUR
# The margin before the other system forgets a key: no call may be in flight at that time.
KEY_MARGIN = HOUR
MAX_REFUSALS = 3
_TOO_EARLY, _CONFLICT_STATUSES = 425, (409, 412)


class CallAnswer(OutboundAnswer, frozen=True, kw_only=True):
    """The answer to one call; of a look it has level and version, and if the reference is known."""

    quantity_milli: int | None = None
    version: str | None = None
    is_known: bool = False


class CallAttempt(NamedTuple):
    """A stored call in flight, its request, if it was in doubt, and the key of all attempts."""

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
            cause = "no level in the answer"
            refused = structs.replace(call, refusals=call.refusals + 1, cause=cause)
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
