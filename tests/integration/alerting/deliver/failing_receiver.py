"""A receiver that fails half of the calls and half of the answers, and remembers each call."""

import hmac
import json
from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from random import Random
from threading import Lock
from typing import NamedTuple

from tests.integration.alerting.deliver.town import Told
from tests.unit.alerting.webhooks.receivers import Got, status

KEY = b"failing-receiver-32-bytes-secret"
# The fourth attempt is taken and answered: else some would be called for during three days, and end
# by their age.
SOONER_OR_LATER = 4


class ReceivedCall(NamedTuple):
    """A call as it has arrived.

    `is_taken`: the receiver has acted on it; `is_refused`: it was answered with 429, which says for
    certain that the receiver has not.
    """

    path: str
    key: str
    body: bytes
    is_signed: bool
    is_taken: bool
    is_refused: bool = False

    @property
    def is_digest(self) -> bool:
        """Whether it lists what was decided, which tells of no state."""
        return bool(json.loads(self.body).get("type") == "alerts.digest")

    @property
    def told(self) -> list[Told]:
        """The states of alerts that it tells of."""
        if self.is_digest:
            return []
        data = json.loads(self.body)["data"]
        return [Told(one["alert_id"], one["state"]) for one in data.get("alerts", [data])]


def _hang_up(handler: BaseHTTPRequestHandler, _got: Got) -> None:
    handler.close_connection = True


# What becomes of a call that it does not take, and of one that it has taken.
REFUSED = "too many"
NOT_TAKEN = {
    "unavailable": status(503),
    "hung up": _hang_up,
    REFUSED: status(429, retry_after="1"),
}
TAKEN = {"no answer": _hang_up, "taken and 500": status(500)}
KILLED_IN_CALL, WELL = "killed in the call", "taken"


@dataclass
class FailingReceiver:
    """`kill`: ends who calls as soon as a call of an alert was taken, once; it gets no answer."""

    random: Random
    kill: Callable[[], None] | None = None
    calls: list[ReceivedCall] = field(default_factory=list)
    fired: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._lock = Lock()
        self._attempts: Counter[tuple[str, str]] = Counter()

    def react(self, handler: BaseHTTPRequestHandler, got: Got) -> None:
        """Take a call or not, and answer or not."""
        # Calls come at once, and what they do has one order.
        with self._lock:
            # Who calls died in the middle of it: that is no call.
            if len(got.body) < int(got.headers["content-length"]):
                self.fired["broken off"] += 1
                return _hang_up(handler, got)
            fate = self._fate(got)
            self.fired[fate] += 1
            is_taken = fate not in NOT_TAKEN
            key = got.headers["webhook-id"]
            is_refused = fate == REFUSED
            self.calls.append(
                ReceivedCall(got.path, key, got.body, _is_signed(got), is_taken, is_refused)
            )
        answer = {**NOT_TAKEN, **TAKEN, KILLED_IN_CALL: _hang_up, WELL: status(204)}[fate]
        return answer(handler, got)

    def _fate(self, got: Got) -> str:
        place = got.path, got.headers["webhook-id"]
        self._attempts[place] += 1
        is_sure = self._attempts[place] >= SOONER_OR_LATER
        if not is_sure and self.random.random() < 0.5:
            return self.random.choice([*NOT_TAKEN])
        if self.kill is not None:
            # Before anything of an answer: it dies while it waits for one.
            self.kill()
            self.kill = None
            return KILLED_IN_CALL
        if not is_sure and self.random.random() < 0.5:
            return self.random.choice([*TAKEN])
        return WELL


def _is_signed(got: Got) -> bool:
    """Whether the signature is the secret's, reckoned here as the specification has it."""
    named = (got.headers[f"webhook-{name}"].encode() for name in ("id", "timestamp"))
    right = hmac.digest(KEY, b".".join((*named, got.body)), "sha256")
    return got.headers["webhook-signature"] == "v1," + b64encode(right).decode()
