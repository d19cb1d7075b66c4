"""The view families: the canonical topic of each, and the additive parts that its rows carry."""

from dataclasses import dataclass

TOTAL_DIM = "*"
TOTAL_DIM_VALUE = ""
# The one axis that is also a unit: what money is counted in.
CURRENCY = "currency"
# What one canonical record may hold at most: far above what the contracts let through, and far
# below what a 64-bit sum or a key of a table takes. A record beyond is not read.
MOST_PART = 10**12
MOST_TEXT_BYTES = 4096
# Where a sum ends: one more part always fits into 64 bits.
MOST_SUM = 2**63 - 1 - MOST_PART


@dataclass(frozen=True)
class Family:
    """One view family.

    `axes` split a window into rows (e.g. currency); `parts` are integers that add up over events.
    """

    name: str
    axes: tuple[str, ...]
    parts: tuple[str, ...]
    epoch: int

    @property
    def topic(self) -> str:
        """The canonical topic."""
        return self.name

    @property
    def speed_table(self) -> str:
        """The table of the speed layer's rows."""
        return f"{self.name}_15min"

    @property
    def batch_table(self) -> str:
        """The table of the rebuilt rows."""
        return f"batch_{self.name}_15min"

    @property
    def excluded_parts(self) -> tuple[str, ...]:
        """Batch columns of what was considered in the window but excluded from its values."""
        return tuple(f"excluded_{part}" for part in self.parts)

    @property
    def row_key(self) -> tuple[str, ...]:
        """Key columns of one row inside its (store_id, day) partition."""
        return ("window_start", *self.axes, "dim", "dim_value")


# `epoch` rises with any change of what tally/frames.py computes for the family; tests/unit compare
# a recorded digest.
SALES = Family(
    "sales",
    axes=(CURRENCY,),
    parts=("receipts", "gross_minor", "returns_minor", "voids_minor", "units_milli"),
    epoch=2,
)
TRAFFIC = Family("traffic", axes=(), parts=("entries", "exits", "passers_by"), epoch=2)
FAMILIES: dict[str, Family] = {family.name: family for family in (SALES, TRAFFIC)}
