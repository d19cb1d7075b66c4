"""The settings of movements of stock and of the system that receives them."""

from pathlib import Path

from pydantic import Field

from tally.config.store_settings import StoreSettings


class StockSettings(StoreSettings):
    """Those settings, with unit and meaning; a part of tally.config.settings.Settings."""

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
