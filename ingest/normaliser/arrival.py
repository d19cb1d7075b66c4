"""What the normaliser knows of a message besides its bytes: how it arrived, and the rules that hold here."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

import yaml

from tally.instants import instant_text
from tally.settings import Settings


@dataclass(frozen=True)
class Rules:
    """Settings that decide what a message becomes; the same for gateway and normaliser."""

    max_bytes: int
    future_tolerance: timedelta
    default_currency: str
    currencies: dict[str, str]
    loyalty_key: bytes

    @classmethod
    def of(cls, settings: Settings) -> "Rules":
        """The rules of these settings; reads the stores file once."""
        return cls(
            max_bytes=settings.max_message_bytes,
            future_tolerance=timedelta(seconds=settings.future_tolerance_seconds),
            default_currency=settings.default_currency,
            currencies=_currencies(settings.stores_file),
            loyalty_key=_hash_key(settings.loyalty_key.get_secret_value()),
        )

    def currency_of(self, store_id: str) -> str:
        """Currency of a store's receipts that name none."""
        return self.currencies.get(store_id, self.default_currency)


@dataclass(frozen=True)
class Arrival:
    """When (Kafka timestamp, UTC) and where in the raw topic a message arrived."""

    received_at: datetime
    partition: int
    offset: int

    @cached_property
    def received_text(self) -> str:
        """received_at as the canonical record carries it."""
        return instant_text(self.received_at)


def _hash_key(secret: str) -> bytes:
    # blake2b takes keys of at most 64 bytes: a digest lets the secret be of any length.
    return blake2b(secret.encode()).digest() if secret else b""


def _currencies(stores_file: Path | None) -> dict[str, str]:
    stores = yaml.safe_load(stores_file.read_text("utf-8")) if stores_file else {}
    return {str(store): entry["currency"] for store, entry in (stores or {}).items() if "currency" in entry}
