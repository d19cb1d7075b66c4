"""The other system's three addresses: what is asked of each, and what its answer says.

POST {url}/adjustments         changes an article by an amount, or sets it
GET  {url}/levels?…            what there is of it, and in which version
PUT  {url}/levels              sets it, with `if-match` only if the version still holds
GET  {url}/references/{id}     200 if a level was set under this reference, else 404
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TypeAlias
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from runtime.outbound.caller import CheckedCaller, OutboundAnswer, OutboundRequest
from runtime.outbound.secrets import KeyLookup
from serving.stock.adapter.target import StockTarget
from tally.alerts.delivery.signing import webhook_headers
from tally.errors import BadSettings
from tally.stock.calls import StockCall
from tally.stock.modes import AskedCall, CallAnswer, quantity_after

_ToldFields: TypeAlias = Mapping[str, int | str | None]
_NOT_FOUND = 404
# What an identity is made of; the rest of it may be the name of an article.
_PLAIN = ":#%"
_IN_VERSIONS = _PLAIN + '"/'


class _ToldLevel(Struct, frozen=True):
    """What a look is answered with."""

    quantity_milli: int
    version: str


_LEVEL = msgspec.json.Decoder(_ToldLevel)


@dataclass(frozen=True)
class InventoryApi:
    """The system of a target; `keys` looks up what signs the calls."""

    target: StockTarget
    caller: CheckedCaller
    keys: KeyLookup
    now: Callable[[], float] = time.time

    async def ask(self, asked: AskedCall) -> CallAnswer:
        """What came of one call."""
        try:
            if asked.step == "look":
                return await self._look(asked)
            request = _adjusting(asked, self.target) if asked.step == "adjust" else _setting(asked)
            return _answer(await self._send(asked, request))
        except BadSettings as error:
            return CallAnswer(error=str(error), is_refused=True)

    async def _look(self, asked: AskedCall) -> CallAnswer:
        call = asked.call
        place = urlencode({"store_id": call.store_id, "item_id": call.item_id})
        told = await self._send(asked, OutboundRequest("GET", f"/levels?{place}"))
        found = _told_level(told)
        # First the version, then the reference: a call that is still on its way names a version. If
        # that has moved it comes to nothing; if not, only one of it and the next can be taken.
        if found.version is None or not asked.doubted or self.target.mode != "compare_and_set":
            return found
        reference = quote(asked.key, safe="")
        known = await self._send(asked, OutboundRequest("GET", f"/references/{reference}"))
        if known.status == _NOT_FOUND:
            return found
        is_known = known.status is not None and 200 <= known.status < 300
        if is_known:
            return msgspec.structs.replace(found, is_known=True)
        return _answer(known)

    async def _send(self, asked: AskedCall, request: OutboundRequest) -> OutboundAnswer:
        keys = self.keys(self.target.secrets)
        # Of its identity a part that any header takes.
        named = "stk_" + sha256(asked.key.encode()).hexdigest()[:40]
        signed = webhook_headers(keys, named, int(self.now()), request.body or b"")
        url = self.target.url.rstrip("/") + request.url
        return await self.caller.call(
            replace(request, url=url, headers={**signed, **request.headers})
        )


def _adjusting(asked: AskedCall, target: StockTarget) -> OutboundRequest:
    call = asked.call
    named = {"idempotency-key": quote(asked.key, safe=_PLAIN)}
    headers = named if target.mode == "idempotency_key" else {}
    changed: _ToldFields = (
        {"level_milli": call.level_milli}
        if call.delta_milli is None
        else {"delta_milli": call.delta_milli}
    )
    return OutboundRequest("POST", "/adjustments", headers, _body(call, changed))


def _setting(asked: AskedCall) -> OutboundRequest:
    call = asked.call
    # Whatever a version is made of; the other system finds its own text again.
    named = {} if call.version is None else {"if-match": quote(call.version, safe=_IN_VERSIONS)}
    told: _ToldFields = {"quantity_milli": quantity_after(call), "reference": asked.key}
    return OutboundRequest("PUT", "/levels", named, _body(call, told))


def _body(call: StockCall, told: _ToldFields) -> bytes:
    # Of what is stored alone: each attempt has the same bytes.
    whole = {
        "movement_id": call.movement_id,
        "store_id": call.store_id,
        "item_id": call.item_id,
        "kind": call.kind,
        "happened_at": call.happened_at,
        **told,
    }
    return msgspec.json.encode(whole)


def _told_level(answer: OutboundAnswer) -> CallAnswer:
    plain = _answer(answer)
    # A level of which a part is missing is no answer.
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
    return CallAnswer(
        status=answer.status,
        retry_after=answer.retry_after,
        error=answer.error,
        is_refused=answer.is_refused,
        is_unsent=answer.is_unsent,
    )
