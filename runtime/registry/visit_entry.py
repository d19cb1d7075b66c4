"""Visit rules in the stores file."""

from dataclasses import dataclass, fields
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field

from tally.config.plain_values import STRICT_FIELDS, WholeNumber
from tally.people.visits import VisitRules

_DEFAULTS = VisitRules()
_Dbm: TypeAlias = Annotated[WholeNumber, Field(ge=-120, le=0)]
_Minutes: TypeAlias = Annotated[WholeNumber, Field(ge=1, le=1440)]


@STRICT_FIELDS
@dataclass(frozen=True, kw_only=True)
class VisitEntry:
    """The fields of tally.people.visits.VisitRules, and the `revision` of these rules.

    Windows of a higher revision replace those of a lower one: a change of the rules for days that
    have begun must raise it.
    """

    enter_dbm: _Dbm = _DEFAULTS.enter_dbm
    stay_dbm: _Dbm = _DEFAULTS.stay_dbm
    gap_minutes: Annotated[WholeNumber, Field(ge=1, le=240)] = _DEFAULTS.gap_minutes
    min_stay_minutes: _Minutes = _DEFAULTS.min_stay_minutes
    bounce_minutes: _Minutes = _DEFAULTS.bounce_minutes
    static_minutes: _Minutes = _DEFAULTS.static_minutes
    closed_minutes: _Minutes = _DEFAULTS.closed_minutes
    revision: Annotated[WholeNumber, Field(ge=0, le=1000)] = 0

    @property
    def rules(self) -> VisitRules:
        """The rules without the revision."""
        names = [rule.name for rule in fields(VisitRules)]
        return VisitRules(**{name: getattr(self, name) for name in names})


def _check_signals(entry: VisitEntry) -> VisitEntry:
    if entry.stay_dbm > entry.enter_dbm:
        raise ValueError(
            f"stay_dbm {entry.stay_dbm} is stronger than enter_dbm {entry.enter_dbm}:"
            " who has come in would have left; give it the same or less"
        )
    return entry


Visits = Annotated[VisitEntry, AfterValidator(_check_signals)]
