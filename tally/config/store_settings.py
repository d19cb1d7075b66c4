"""The settings of stores, of their sensors, of people there, of stock and of alerts."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, SecretStr

from tally.people.small_cells import SmallestCell
from tally.time.key_periods import MAX_DAYS


class StoreSettings(BaseModel):
    """These settings, with unit and meaning; a part of tally.config.settings.Settings."""

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
        None, description="folder of the devices' keys, beside the data; default TALLY_HOME/keys"
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

    stock_movements: bool = Field(
        False,
        description="whether the local stack writes stock movements: a record for each sold line",
    )
    stock_target: Path | None = Field(
        None,
        description=(
            "JSON file of the system that receives stock movements; with it the local stack has"
            " the services stock and stock-adapter"
        ),
    )
    stock_slot: int = Field(
        0,
        ge=0,
        description=(
            "which of several processes of stock movements this is; a second one of a slot ends the"
            " first"
        ),
    )
    stock_adapter_slot: int = Field(
        0,
        ge=0,
        description=(
            "which of several stock adapters this is; a second one of a slot ends the first"
        ),
    )

    rule_edits: Literal["allow", "refuse"] = Field(
        "allow",
        description=(
            "whether the dashboard's pages apply rules of alerts, and whether pages and API"
            " acknowledge, snooze and resolve alerts: if so, anyone who reaches them may;"
            " checking and simulating rules is never refused"
        ),
    )
    tick_seconds: float = Field(
        5.0,
        gt=0,
        description="seconds between two ticks, which say up to when what had arrived is read",
    )
    batch_overdue_seconds: float = Field(
        7200.0, gt=0, description="age in seconds at which an alert that is unsettled is overdue"
    )
