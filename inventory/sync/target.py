"""The target system of stock movements, described by a file of its own."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator, Field, Tag, TypeAdapter, ValidationError

from inventory.sync.calls import CallMode
from inventory.sync.engine import StockSyncEngine
from inventory.sync.modes import GIVES_UP_AFTER, HOUR, KEY_MARGIN, CallRules
from runtime.outbound.addresses import parse_url
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
