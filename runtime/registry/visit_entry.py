"""Visit rules in the stores file."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import structs

from tally.errors import BadSettings
from tally.people.visits import VisitRules

_DEFAULTS = VisitRules()
_Dbm: TypeAlias = Annotated[int, msgspec.Meta(ge=-120, le=0)]
_Minutes: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=1440)]


class VisitEntry(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """The fields of tally.people.visits.VisitRules, and the `revision` of these rules.

    Windows of a higher revision replace those of a lower one: a change of the rules for days that
    have begun must raise it.
    """

    enter_dbm: _Dbm = _DEFAULTS.enter_dbm
    stay_dbm: _Dbm = _DEFAULTS.stay_dbm
    gap_minutes: Annotated[int, msgspec.Meta(ge=1, le=240)] = _DEFAULTS.gap_minutes
    min_stay_minutes: _Minutes = _DEFAULTS.min_stay_minutes
    bounce_minutes: _Minutes = _DEFAULTS.bounce_minutes
    static_minutes: _Minutes = _DEFAULTS.static_minutes
    closed_minutes: _Minutes = _DEFAULTS.closed_minutes
    revision: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0

    @property
    def rules(self) -> VisitRules:
        """The rules without the revision."""
        values = structs.asdict(self)
        del values["revision"]
        return VisitRules(**values)


def parse_visit_entry(where: str, fields: Any) -> VisitEntry:
    """Parse the visit rules of one store; `where` names file, store and field.

    Raises BadSettings that names the field and the fix.
    """
    if not isinstance(fields, Mapping):
        raise BadSettings(f"{where}: rules are wanted, e.g. `{{enter_dbm: -75, gap_minutes: 30}}`")
    try:
        # All scalars of the file are text.
        entry = msgspec.convert(fields, VisitEntry, strict=False)
    except msgspec.ValidationError as error:
        raise BadSettings(f"{where}: {error}") from error
    if entry.stay_dbm > entry.enter_dbm:
        raise BadSettings(
            f"{where}: stay_dbm {entry.stay_dbm} is stronger than enter_dbm {entry.enter_dbm}:"
            " who has come in would have left; give it the same or less"
        )
    return entry
