"""The target system of stock movements: the file that describes it, and its endpoints.

POST {url}/adjustments         changes an article by an amount, or sets it
GET  {url}/levels?…            the article's level and its version
PUT  {url}/levels              sets it, with `if-match` only if the version still holds
GET  {url}/references/{id}     200 if a level was set under this reference, else 404
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, get_args
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct
from pydantic import BeforeValidator, Field, Tag, TypeAdapter, ValidationError

from inventory.sync.calls import (
    GIVES_UP_AFTER,
    HOUR,
    KEY_MARGIN,
    CallAnswer,
    CallAttempt,
    CallMode,
    CallRules,
    StockCall,
    quantity_after,
)
from inventory.sync.engine import StockSyncEngine
from runtime.outbound.addresses import parse_url
from runtime.outbound.caller import OutboundAnswer, OutboundCaller, OutboundRequest
from tally.config.plain_values import (
    BY_FORM,
    LIST,
    STRICT_FIELDS,
    WORD,
    Identifier,
    list_problems,
    shorten_value,
)
from tally.errors import AddressRefused, BadSettings

_MINUTE = 60_000
_AllStores = Annotated[Literal["all"], Tag(WORD)]
_StoreIds = Annotated[tuple[Identifier, ...], Tag(LIST)]


def _check_mode(mode: object) -> object:
    if mode not in get_args(CallMode):
        known = ", ".join(get_args(CallMode))
        raise ValueError(f"{shorten_value(mode)} is no mode; a mode is one of {known}")
    return mode


@STRICT_FIELDS
@dataclass(frozen=True, kw_only=True)
class StockTarget:
    """A system that keeps stock too, and the features that it offers.

    `secrets`: names of the keys that sign the calls, never the keys; `key_life_hours`: how long it
    remembers an idempotency key; `reconcile_at`: time of day (UTC) at which `absolute` sets every
    level.
    """

    url: Annotated[str, Field(max_length=2_000, pattern=r"^https?://\S+$")]
    mode: Annotated[CallMode, BeforeValidator(_check_mode)]
    secrets: Annotated[tuple[str, ...], Field(min_length=1, max_length=2)]
    stores: Annotated[_AllStores | _StoreIds, BY_FORM] = "all"
    key_life_hours: Annotated[int, Field(strict=True, ge=2, le=720)] = 24
    reconcile_at: Annotated[str, Field(pattern="^([01][0-9]|2[0-3]):[0-5][0-9]$")] = "03:00"

    def make_engine(self) -> StockSyncEngine:
        """A new engine for one partition's calls."""
        hours, minutes = map(int, self.reconcile_at.split(":"))
        return StockSyncEngine(self.rules, hours * HOUR + minutes * _MINUTE)

    @property
    def rules(self) -> CallRules:
        """The rules for retries; calls under an idempotency key end before the key expires."""
        lasts = self.key_life_hours * HOUR - KEY_MARGIN
        # The other modes do not depend on the memory of the other system.
        by_key = self.mode == "idempotency_key"
        return CallRules(self.mode, lasts if by_key else GIVES_UP_AFTER)

    def covers_store(self, store_id: str) -> bool:
        """Whether movements of the store are sent."""
        return self.stores == "all" or store_id in self.stores


_TARGET = TypeAdapter(StockTarget)


def read_target(file: Path | None) -> StockTarget:
    """The target of a file. Raises BadSettings that names the file, the field and the fix."""
    if file is None:
        raise BadSettings("TALLY_STOCK_TARGET: names no file; without one no stock is sent")
    try:
        target = _TARGET.validate_json(file.read_bytes())
        parse_url(target.url)
    except OSError as error:
        raise BadSettings(f"TALLY_STOCK_TARGET: {file}: {error.strerror}") from error
    except (ValidationError, AddressRefused) as error:
        problems = [str(error)]
        if isinstance(error, ValidationError):
            # An address may hold a password, so no value is shown.
            problems = list_problems(error, {}, show=lambda value: f"a {type(value).__name__}")
        hint = f"{'; '.join(problems)}; docs/stock-movements.md has an example"
        raise BadSettings(f"TALLY_STOCK_TARGET: {file}: {hint}") from error
    return target


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
        if _is_success(reply):
            return msgspec.structs.replace(found, is_known=True)
        return _answer(reply)

    async def _send(self, attempt: CallAttempt, request: OutboundRequest) -> OutboundAnswer:
        # A hash of the key, because the key itself may not be valid in a header.
        message_id = "stk_" + sha256(attempt.key.encode()).hexdigest()[:40]
        url = self.target.url.rstrip("/") + request.url
        request = replace(request, url=url)
        return await self.caller.call_signed(request, message_id, self.target.secrets)


def _adjust_request(attempt: CallAttempt) -> OutboundRequest:
    call = attempt.call
    headers = {"idempotency-key": quote(attempt.key, safe=_PLAIN)}
    change: _BodyFields = {"delta_milli": call.delta_milli}
    if call.delta_milli is None:
        change = {"level_milli": call.level_milli}
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
    if not _is_success(answer):
        return plain
    try:
        level = _LEVEL.decode(answer.body)
    except msgspec.DecodeError as error:
        return msgspec.structs.replace(plain, error=f"no level in the answer: {error}"[:200])
    return msgspec.structs.replace(plain, **msgspec.structs.asdict(level))


def _is_success(answer: OutboundAnswer) -> bool:
    return answer.status is not None and 200 <= answer.status < 300


def _answer(answer: OutboundAnswer) -> CallAnswer:
    return CallAnswer(**msgspec.structs.asdict(answer))
