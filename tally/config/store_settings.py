"""The settings of stores, of their sensors, and of what is known about people there."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, SecretStr

from tally.people.small_cells import SmallestCell
from tally.time.key_periods import MAX_DAYS


class StoreSettings(BaseModel):
    """The settings of stores, with unit and meaning; a part of tally.config.settings.Settings."""

    default_currency: str = Field(
        "USD", description="currency of a store that names none, ISO 4217"
    )
    default_timezone: str = Field("UTC", description="time zone of a store that names none")
    stores_file: Path | None = Field(
        None,
        description=(
            "YAML: what is known of each store; default TALLY_HOME/stores.yaml, if it is there"
        ),
    )
    coverage_threshold: float = Field(
        0.9,
        ge=0,
        le=1,
        description=(
            "share of the open hours for which the sensors of the stores file must have been there,"
            " or an answer that is made of them is not complete"
        ),
    )
    coverage_below: Literal["estimate", "withhold"] = Field(
        "estimate",
        description="what becomes of a number below it: it says `estimated`, or is withheld",
    )
    key_days: int = Field(
        1,
        ge=1,
        le=MAX_DAYS,
        description=(
            "local days for which a device of a store is known as the same one; its key is"
            " destroyed six hours after them; lowered, longer periods are read and rebuilt in part"
        ),
    )
    key_folder: Path | None = Field(
        None,
        description="folder of the devices' keys, beside the data; default TALLY_HOME/keys",
    )
    privacy_smallest_cell: SmallestCell = 0
    vendor_secrets: SecretStr = Field(
        SecretStr("{}"),
        description=(
            "JSON: by vendors' format, what its senders must know and what is answered to who"
            ' asks first, e.g. {"meraki": {"secret": "…", "validator": "…"}}'
        ),
    )
    poslog_item_types: str = Field(
        "",
        description=(
            "what kinds of article that are a vendor's own in POSLog count as; the others count as"
            " articles, e.g. acs:NegativeItem=deposit_refund,x:Bag=fee"
        ),
    )
    loyalty_key: SecretStr = Field(
        SecretStr(""),
        description="secret key of the loyalty hash; without it no loyalty id is kept",
    )
