"""Visit rules in the stores file."""

from dataclasses import dataclass, fields
from typing import Annotated

from pydantic import AfterValidator, Field

from tally.config.plain_values import AS_INTEGER, STRICT_FIELDS
from tally.people.visits import VisitRules

_DEFAULTS = VisitRules()
_Dbm = Annotated[int, Field(strict=True, ge=-120, le=0), AS_INTEGER]
_Minutes = Annotated[int, Field(strict=True, ge=1, le=1440), AS_INTEGER]


@STRICT_FIELDS
@dataclass(frozen=True, kw_only=True)
class VisitEntry:
    """The fields of tally.people.visits.VisitRules, and the `revision` of these rules.

    Windows of a higher revision replace those of a lower one: a change of the rules for days that
    have begun must raise it.
    """

    enter_dbm: _Dbm = _DEFAULTS.enter_dbm
    stay_dbm: _Dbm = _DEFAULTS.stay_dbm
    gap_minutes: Annotated[int, Field(strict=True, ge=1, le=240), AS_INTEGER] = (
        _DEFAULTS.gap_minutes
    )
    min_stay_minutes: _Minutes = _DEFAULTS.min_stay_minutes
    bounce_minutes: _Minutes = _DEFAULTS.bounce_minutes
    static_minutes: _Minutes = _DEFAULTS.static_minutes
    closed_minutes: _Minutes = _DEFAULTS.closed_minutes
    revision: Annotated[int, Field(strict=True, ge=0, le=1000), AS_INTEGER] = 0

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
