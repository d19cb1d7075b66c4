"""The three endpoints of the other system: their requests and their answers.

POST {url}/adjustments         changes an article by an amount, or sets it
GET  {url}/levels?…            the article's level and its version
PUT  {url}/levels              sets it, with `if-match` only if the version still holds
GET  {url}/references/{id}     200 if a level was set under this reference, else 404
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TypeAlias
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from inventory.sync.calls import StockCall
from inventory.sync.modes import CallAnswer, CallAttempt, quantity_after
from inventory.sync.target import StockTarget
from runtime.outbound.caller import OutboundAnswer, OutboundCaller, OutboundRequest

_BodyFields: TypeAlias = Mapping[str, int | str | None]
_NOT_FOUND = 404
# The separators in a movement's id; the rest of it may be the name of an article.
_PLAIN = ":#%"
_IN_VERSIONS = _PLAIN + '"/'


class _LevelBody(Struct, frozen=True):
    """The body of the answer to a look."""

    quantity_milli: int
    version: str


_LEVEL = msgspec.json.Decoder(_LevelBody)


@dataclass(frozen=True)
class InventoryApi:
    """The API of a target system."""

    target: StockTarget
    caller: OutboundCaller

    async def make_call(self, attempt: CallAttempt) -> CallAnswer:
        """Make one call and return its answer."""
        if attempt.step == "look":
            return await self._read_level(attempt)
        request = _adjust_request(attempt) if attempt.step == "adjust" else _set_request(attempt)
        return _answer(await self._send(attempt, request))

    async def _read_level(self, attempt: CallAttempt) -> CallAnswer:
        call = attempt.call
        place = urlencode({"store_id": call.store_id, "item_id": call.item_id})
        level_reply = await self._send(attempt, OutboundRequest("GET", f"/levels?{place}"))
        found = _level_answer(level_reply)
        # First the version, then the reference: a call still in flight names a version. If that has
        # changed, the call has no effect; if not, only one of it and the next can succeed.
        if found.version is None or not attempt.was_in_doubt:
            return found
        reference = quote(attempt.key, safe="")
        reply = await self._send(attempt, OutboundRequest("GET", f"/references/{reference}"))
        if reply.status == _NOT_FOUND:
            return found
        is_known = reply.status is not None and 200 <= reply.status < 300
        if is_known:
            return msgspec.structs.replace(found, is_known=True)
        return _answer(reply)

    async def _send(self, attempt: CallAttempt, request: OutboundRequest) -> OutboundAnswer:
        # A hash of the key, because the key itself may not be valid in a header.
        message_id = "stk_" + sha256(attempt.key.encode()).hexdigest()[:40]
        url = self.target.url.rstrip("/") + request.url
        return await self.caller.call_signed(
            replace(request, url=url), message_id, self.target.secrets
        )


def _adjust_request(attempt: CallAttempt) -> OutboundRequest:
    call = attempt.call
    headers = {"idempotency-key": quote(attempt.key, safe=_PLAIN)}
    change: _BodyFields = (
        {"level_milli": call.level_milli}
        if call.delta_milli is None
        else {"delta_milli": call.delta_milli}
    )
    return OutboundRequest("POST", "/adjustments", headers, _body(call, change))


def _set_request(attempt: CallAttempt) -> OutboundRequest:
    call = attempt.call
    # A version may have any characters; the other system gets its own text back.
    header = {} if call.version is None else {"if-match": quote(call.version, safe=_IN_VERSIONS)}
    fields: _BodyFields = {"quantity_milli": quantity_after(call), "reference": attempt.key}
    return OutboundRequest("PUT", "/levels", header, _body(call, fields))


def _body(call: StockCall, fields: _BodyFields) -> bytes:
    # Built from stored fields only, so that each attempt has the same bytes.
    whole = {
        "movement_id": call.movement_id,
        "store_id": call.store_id,
        "item_id": call.item_id,
        "kind": call.kind,
        "happened_at": call.happened_at,
        **fields,
    }
    return msgspec.json.encode(whole)


def _level_answer(answer: OutboundAnswer) -> CallAnswer:
    plain = _answer(answer)
    # A truncated level is not an answer.
    if answer.is_cut:
        return msgspec.structs.replace(plain, status=None, error="the answer broke off")
    if answer.status is None or not 200 <= answer.status < 300:
        return plain
    try:
        level = _LEVEL.decode(answer.body)
    except msgspec.DecodeError as error:
        return msgspec.structs.replace(plain, error=f"no level in the answer: {error}"[:200])
    return msgspec.structs.replace(
        plain, quantity_milli=level.quantity_milli, version=level.version
    )


def _answer(answer: OutboundAnswer) -> CallAnswer:
    return CallAnswer(**msgspec.structs.asdict(answer))
