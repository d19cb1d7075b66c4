"""The stores file: what is known of a store besides its events."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import yaml

from tally.errors import BadSettings
from tally.identity import IDENTIFIER
from tally.money import CURRENCIES

NUMBERINGS = ("daily", "yearly")
_FIELDS = ("name", "tz", "currency", "numbering")


@dataclass(frozen=True)
class StoreEntry:
    """What the file says of one store; None where it says nothing.

    `numbering`: how often the receipt numbers of its tills begin again.
    """

    name: str | None = None
    tz: str | None = None
    currency: str | None = None
    numbering: str | None = None


def store_entries(file: Path | None) -> dict[str, StoreEntry]:
    """The file's stores by id; none without a file.

    Raises BadSettings that names file, store, field and fix.
    """
    if file is None:
        return {}
    try:
        # Every scalar as its text: a store 0367 is not the number 247, and NO is not false.
        stores = yaml.load(file.read_text("utf-8"), Loader=yaml.BaseLoader) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadSettings(
            f"TALLY_STORES_FILE: {file} cannot be read as YAML: {' '.join(str(error).split())}"
        ) from error
    if not isinstance(stores, dict):
        raise BadSettings(
            f"TALLY_STORES_FILE: {file}: store ids with their fields are wanted,"
            " e.g. `367: {currency: EUR}`"
        )
    return {
        str(store_id): _entry(f"{file}: store {store_id}", store_id, fields)
        for store_id, fields in stores.items()
    }


def _entry(where: str, store_id: object, fields: object) -> StoreEntry:
    if not isinstance(store_id, str) or IDENTIFIER.fullmatch(store_id) is None:
        raise BadSettings(f"{where}: the id is not 1 to 64 of A-Z a-z 0-9 . _ : -")
    fields = fields or {}
    if not isinstance(fields, Mapping):
        raise BadSettings(
            f"{where}: fields are wanted, e.g. `{{currency: EUR}}`; known are {', '.join(_FIELDS)}"
        )
    for field, value in fields.items():
        if field not in _FIELDS:
            raise BadSettings(f"{where}: unknown field {field!r}; known are {', '.join(_FIELDS)}")
        if not isinstance(value, str) or not value:
            raise BadSettings(
                f"{where}: {field}: a text is wanted; leave the field out for the default"
            )
    entry = StoreEntry(**fields)
    if entry.tz is not None:
        zone_of(entry.tz, f"{where}: tz")
    if entry.currency is not None and entry.currency not in CURRENCIES:
        raise BadSettings(
            f"{where}: currency {entry.currency!r} is no currency of ISO 4217, e.g. EUR"
        )
    if entry.numbering not in (None, *NUMBERINGS):
        raise BadSettings(
            f"{where}: numbering {entry.numbering!r} is none of {', '.join(NUMBERINGS)};"
            " without it numbers never begin again"
        )
    return entry


def zone_of(name: str, where: str) -> ZoneInfo:
    """The time zone of this name. Raises BadSettings."""
    try:
        return ZoneInfo(name)
    # OSError: `Europe` is a folder of zones, and a name may be too long for a file.
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise BadSettings(f"{where} {name!r} is no IANA time zone, e.g. Europe/Rome") from error
