"""What a system that keeps stock can be asked for, and what follows from its answers.

    mode              asked                                      in doubt
    idempotency_key   change, under the movement's key           the same, while the key lives
    compare_and_set   level; set it if the version still holds   level, and if the tag is known
    sole              level; set it if the version still holds   a version that moved is our own
    absolute          set the level                              the same, and each night
    at_least_once     change                                     the same
    at_most_once      change                                     nothing: it stays unknown

Whatever is asked is stored first, and says already what holds without an answer: so a process that
dies leaves nothing to be found out.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from msgspec import Struct, structs

from tally.backoff import SECOND, spread_delay
from tally.stock.calls import CallMode, CallOutcome, CallStep, StockCall

HOUR = 3_600 * SECOND
GIVES_UP_AFTER = 72 * HOUR
# Before the other system forgets a key no call may still be on its way.
KEY_MARGIN = HOUR
MOST_REFUSALS = 3
_GONE_ON, _MOVED = (408, 425), (409, 412)
# Overloaded, an expired token, missing rights, a bridge that is being deployed: it will be better.
_NOT_NOW = (429, 401, 403, 404)
# What an answer says of its call; what it does not say is in doubt.
CallSaid = Literal["yes", "moved", "not taken", "no", "in doubt"]


class CallAnswer(Struct, frozen=True, kw_only=True):
    """What came of one call: a status, or none and why.

    `is_refused`: nobody was called, for the address is none that may be; `is_unsent`: nobody has
    taken the connection. Of a look `quantity_milli` and `version`, and whether the movement's
    reference is known.
    """

    status: int | None = None
    retry_after: float | None = None
    error: str = ""
    is_refused: bool = False
    is_unsent: bool = False
    quantity_milli: int | None = None
    version: str | None = None
    is_known: bool = False


class AskedCall(NamedTuple):
    """A call as it is stored while it is under way, what is asked, and if it was in doubt before.

    `key`: the one that all attempts of the movement share.
    """

    call: StockCall
    step: CallStep
    doubted: bool
    key: str


def said_by(answer: CallAnswer, step: CallStep) -> CallSaid:
    """What an answer says of its call. Redirects are refusals: nobody knows where they lead."""
    status = answer.status
    # Faults of our own side too: nobody was called, and people repair them.
    if answer.is_refused or answer.is_unsent or status in _NOT_NOW:
        return "not taken"
    if status is None or status < 200 or status >= 500 or status in _GONE_ON:
        return "in doubt"
    if status < 300:
        return "yes"
    if status in _MOVED and step == "set":
        return "moved"
    # To a key: another attempt is just being worked on.
    return "in doubt" if status == _MOVED[0] and step == "adjust" else "no"


@dataclass(frozen=True)
class CallRules:
    """How one mode goes on; `gives_up_after`: milliseconds since the first attempt."""

    mode: CallMode
    gives_up_after: int = GIVES_UP_AFTER

    @property
    def first_step(self) -> CallStep:
        """What is asked first."""
        if self.mode in ("compare_and_set", "sole"):
            return "look"
        return "set" if self.mode == "absolute" else "adjust"

    def key(self, call: StockCall) -> str:
        """What tells the other system that two calls are one."""
        return call.movement_id

    def asked(self, call: StockCall, now: int) -> AskedCall:
        """The call with one more attempt; to be stored before anybody is called."""
        tried = structs.replace(
            call,
            outcome="called",
            attempts=call.attempts + 1,
            failures=call.failures + 1,
            begun_at=now if call.begun_at is None else call.begun_at,
            due_at=now + spread_delay(call.movement_id, call.failures + 1),
        )
        # By a look nothing changes.
        if call.step != "look":
            tried = structs.replace(tried, in_doubt=True, step=self.first_step)
        # Never due again, whatever becomes of this process.
        if self.mode == "at_most_once":
            tried = ended(tried, "unknown", now, "")
        return AskedCall(tried, call.step, call.in_doubt, self.key(call))

    def is_over(self, call: StockCall, now: int) -> bool:
        """Whether the call has had its time: then nobody is called any more."""
        return call.begun_at is not None and now >= call.begun_at + self.gives_up_after

    def answered(self, asked: AskedCall, answer: CallAnswer, now: int) -> StockCall:
        """The call after the answer to its last attempt."""
        # What an answer says may be long, and is kept with the movement.
        cause = answer.error[:200]
        call = structs.replace(asked.call, status=answer.status, cause=cause)
        said = said_by(answer, asked.step)
        # What a look tells is no outcome: it decides what is set, or that it is set already.
        if asked.step == "look" and said == "yes":
            return self._looked(call, answer, now)
        if said == "yes":
            return ended(call, "applied", now, "")
        if said == "in doubt":
            return self._later(call, answer, now)
        # It is certain that this attempt has changed nothing.
        call = structs.replace(call, in_doubt=asked.doubted)
        if said == "moved":
            return self._moved(call, now)
        if said == "no" and call.refusals + 1 >= MOST_REFUSALS:
            return self.given_up(call, now, call.cause or "refused")
        refusals = call.refusals + (said == "no")
        return self._later(structs.replace(call, refusals=refusals), answer, now)

    def is_done(self, call: StockCall, answer: CallAnswer) -> bool:
        """Whether a look tells that a call in doubt has arrived."""
        if self.mode == "sole":
            return answer.version != call.version
        return answer.is_known

    def given_up(self, call: StockCall, now: int, cause: str) -> StockCall:
        """The call at its end, without anybody's word that it was applied."""
        return ended(call, "unknown" if call.in_doubt else "refused", now, cause)

    def _looked(self, call: StockCall, answer: CallAnswer, now: int) -> StockCall:
        if answer.version is None or answer.quantity_milli is None:
            refused = structs.replace(
                call, refusals=call.refusals + 1, cause="no level in the answer"
            )
            if refused.refusals >= MOST_REFUSALS:
                return self.given_up(refused, now, refused.cause)
            return self._later(refused, answer, now)
        # Of who was never in doubt nothing can be there, whatever has moved.
        if call.in_doubt and self.is_done(call, answer):
            return ended(call, "applied", now, "")
        return structs.replace(
            call,
            step="set",
            version=answer.version,
            quantity_milli=answer.quantity_milli,
            failures=call.failures - 1,
            due_at=now,
        )

    def _moved(self, call: StockCall, now: int) -> StockCall:
        # Of an earlier attempt under this very version nobody knew: nobody else writes.
        if self.mode == "sole" and call.in_doubt:
            return ended(call, "applied", now, "")
        # It was set on no version at all; somebody answers in a way that nobody has asked for.
        if self.mode == "absolute":
            return self._later(call, CallAnswer(), now)
        return structs.replace(call, step="look", failures=call.failures - 1, due_at=now)

    def _later(self, call: StockCall, answer: CallAnswer, now: int) -> StockCall:
        if self.mode == "at_most_once":
            return call if call.in_doubt else ended(call, "refused", now, call.cause)
        # Not one more: behind the life of a key the next one would be a second movement.
        if self.is_over(call, now):
            return self.given_up(call, now, call.cause)
        if answer.retry_after is None:
            return structs.replace(call, due_at=now + spread_delay(call.movement_id, call.failures))
        # However long it asks for: when its time is over it is called for no more anyway.
        wanted = int(min(answer.retry_after * SECOND, self.gives_up_after))
        return structs.replace(call, due_at=now + max(wanted, SECOND))


def quantity_after(call: StockCall) -> int | None:
    """The level that the call sets; None where it is not known."""
    if call.delta_milli is None:
        return call.level_milli
    return None if call.quantity_milli is None else call.quantity_milli + call.delta_milli


def ended(call: StockCall, outcome: CallOutcome, now: int, cause: str) -> StockCall:
    """The call at its end."""
    return structs.replace(call, outcome=outcome, ended_at=now, cause=cause)
