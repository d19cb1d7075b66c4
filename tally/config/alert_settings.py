"""The settings of alerts as people see them, and of their rules."""

from typing import Literal

from pydantic import BaseModel, Field


class AlertSettings(BaseModel):
    """The settings of alerts, with unit and meaning; a part of tally.config.settings.Settings."""

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
