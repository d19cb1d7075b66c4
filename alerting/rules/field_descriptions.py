"""Meaning and allowed values of each field of a rule, for errors, the schema and the docs."""

from collections.abc import Mapping
from typing import NamedTuple


class FieldHelp(NamedTuple):
    """The meaning of one field, its allowed values, and the unit of a number."""

    meaning: str
    allowed: str
    unit: str | None = None


# The text shows an example of each form, so that the author of a wrong condition sees both.
_CONDITION = (
    '`{op: ">=", value: 6}`, `{baseline: same_weekday_4w, change: "<= -30 %"}`, or'
    " `{baseline: hour_of_week, sigmas: 3}`"
)
FIELD_HELP: Mapping[str, FieldHelp] = {
    "rule_id": FieldHelp(
        "the rule, for good: its versions and its alerts name it",
        "1 to 63 of a-z 0-9 -, the first a letter, e.g. queue-too-long",
    ),
    "kind": FieldHelp(
        "what is judged: a value, a value against what is usual, no records at all, or stock",
        "threshold, baseline, silence or stock",
    ),
    "metric": FieldHelp(
        "the metric whose value is judged; none of a silence rule",
        "an id of the catalogue, e.g. transactions",
    ),
    "family": FieldHelp(
        "the source whose records a silence rule waits for; none of any other",
        "the name of a source",
    ),
    "stores": FieldHelp(
        "which stores; each is judged by itself, never a sum of several",
        "`all`, 1 to 10,000 different store ids as `[367, 406]`, or a group as `{region: west}`",
    ),
    "subject": FieldHelp(
        "what of a store is judged, each by itself: the store as a whole, or each value of an axis."
        " Of a stock rule always `item`",
        "none, item, till, device, zone or category",
    ),
    "grain": FieldHelp(
        "of what the value is: of a quarter hour; of an hour of the clock or a day of the store,"
        " judged in the quarter hour with which it ends; or of all since the store opened that day,"
        " judged in each quarter hour",
        "quarter_hour, hour, day or since_opening",
    ),
    "condition": FieldHelp(
        "what calls for an alert; its value is in the metric's unit", _CONDITION
    ),
    "clear": FieldHelp(
        "what ends it; what lies between it and the condition leaves all as it is. By default"
        " whatever the condition does not hold for; a stock rule needs one",
        _CONDITION,
    ),
    "and": FieldHelp(
        "further conditions on other metrics of the same store and window: the rule raises only"
        " where all of them hold too, and clears also where one of them does not",
        'up to 10 conditions as `[{metric: transactions, op: "<", value: 5}]`',
    ),
    "for": FieldHelp(
        "windows in a row for which the condition has to hold; with `grain: hour` or `day` hours or"
        " days in a row",
        "a whole number of windows from 1 to 96",
        "windows",
    ),
    "clear_for": FieldHelp(
        "windows in a row for which `clear` has to hold; with `grain: hour` or `day` hours or days",
        "a whole number of windows from 1 to 96",
        "windows",
    ),
    "evaluate": FieldHelp(
        "when a window is judged: `close`, once it is over, or `eager`, as soon as the condition"
        " holds; the latter only where more records cannot undo it. Of a stock rule `eager` by"
        " default",
        "close or eager",
    ),
    "on_silence": FieldHelp(
        "a window of which nothing has come: `hold` leaves all as it is, `raise` counts as if the"
        " condition held. Of a silence rule always `raise`",
        "hold or raise",
    ),
    "delay": FieldHelp(
        "so long after all that had arrived by a window's end was read it is judged",
        "a whole number of seconds from 0 to 3600",
        "seconds",
    ),
    "within": FieldHelp(
        "which windows count, by their start on the store's clock; an hour that lies inside whole,"
        " a day that has a window inside",
        '`always`, `opening_hours`, or 1 to 100 spans as `[{days: mon-fri, from: "08:00", to:'
        ' "20:00"}]`',
    ),
    "minimum": FieldHelp(
        "how much of other metrics a window must have, else its value is not known; a ratio needs"
        " that of its denominator",
        "up to 20 metrics with a whole number above 0, as `{transactions: 20}`",
    ),
    "unless": FieldHelp(
        "rules whose open episode in the same store keeps this one as it is",
        "up to 100 different rule ids, as `[store-silent]`",
    ),
    "severity": FieldHelp("how bad it is", "info, warning or critical"),
    "title": FieldHelp(
        "the alert in words, for people", "a text of at most 200 characters, on one line"
    ),
    "owner": FieldHelp("who looks after the rule", "a text of at most 200 characters, on one line"),
    "channels": FieldHelp(
        "where its alerts are sent",
        "up to 20 different names of 1 to 64 of A-Z a-z 0-9 . _ -, as `[floor-tablet]`",
    ),
    "late_after": FieldHelp(
        "an alert that comes so long after its window's end is marked as late",
        "a whole number of seconds from 0 to 2592000",
        "seconds",
    ),
    "backfill": FieldHelp(
        "always false: alerts of the time before a rule are not published yet;"
        " `tally alerts simulate` shows them",
        "true or false",
    ),
}
# Fields that people write by mistake, with the reason why no rule has them.
UNSUPPORTED_FIELDS: Mapping[str, str] = {
    "effective_from": "a version is in force by the time at which it was applied",
    "version": "versions are numbered as they are applied",
    "retired": "`tally rules retire` ends a rule",
}
