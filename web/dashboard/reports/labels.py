"""The texts for the quality of a report's number and for its change."""

from math import floor
from zoneinfo import ZoneInfo

from serving.reports.comparison import ComparedValue, ComparisonState, WithheldValue
from serving.reports.report import StoreReport
from web.dashboard.shared.labels import BADGES, NOTHING, percent_text
from web.dashboard.shared.period import Period
from web.dashboard.shared.unit_style import UnitStyle

NumberState = ComparisonState
# For each state: a sign and a word, so that neither depends on colour.
STATES: dict[NumberState, tuple[str, str]] = {
    "complete": BADGES["complete"],
    "provisional": BADGES["provisional"],
    "partial": ("◔", "Partial"),
    "estimated": ("≈", "Estimated"),
    "unknown": ("○", "Nothing known"),
    "withheld": ("⊘", "WithheldValue"),
}
_MAX_NAMED = 5
# States without a number make a result partial if other numbers are known; then the other states
# from the worst to the best.
_NO_NUMBER: tuple[NumberState, ...] = ("unknown", "withheld")
_WEAKEST: tuple[NumberState, ...] = ("partial", "estimated", "provisional", "complete")


def number_state(found: ComparedValue | WithheldValue) -> NumberState:
    """The state of one number."""
    return "withheld" if isinstance(found, WithheldValue) else found.state


def combine_states(states: list[NumberState]) -> NumberState:
    """The state of several numbers together.

    >>> combine_states(["complete", "unknown"]), combine_states(["complete", "provisional"])
    ('partial', 'provisional')
    """
    if len(set(states)) == 1:
        return states[0]
    # If some numbers are known and one is not, the result is partial, however sure the others are.
    reduced = ["partial" if state in _NO_NUMBER else state for state in states]
    return next(state for state in _WEAKEST if state in reduced)


def comparison_text(found: ComparedValue, period: Period) -> str:
    """The change in words, or why there is none."""
    days = f"the {period.length} days before"
    # Checked before the change, because there is none without a value, even if the days before
    # have one.
    if found.suppressed is not None:
        return f"withheld: {found.suppressed}"
    if found.sensor_coverage.is_withheld:
        return "withheld: sensors were silent"
    if found.value is None:
        return "no value: it would be divided by 0" if found.known else ""
    if found.change_percent is not None:
        return f"{percent_text(found.change_percent)} vs {days}"
    if found.suppressed_before is not None:
        return f"not compared: {days} are withheld, {found.suppressed_before}"
    if found.previous is None:
        return f"no value in {days}"
    return f"0 in {days}" if found.previous == 0 else "not compared: quarter hours are missing"


def completeness_text(found: ComparedValue) -> str:
    """The share of the period's quarter hours that are known, as text."""
    if found.known == 0:
        return "Nothing is known of these days, which is not the same as 0."
    missing = found.windows - found.known
    if not missing:
        return "100 % of the quarter hours known"
    # Rounded down, so that an incomplete share never looks like 100 %.
    share = floor(1000 * found.known / found.windows) / 10
    return f"{share} % of the quarter hours known, {missing:,} missing"


def silent_text(found: ComparedValue) -> str:
    """The sensors that were present for less time than they should have been, the worst first.

    The text names at most five, and how many more there are.
    """
    sensors = [
        f"{name} was there for {floor(100 * share)} % of the open hours"
        for share, name in found.sensor_coverage.silent_sensors()
    ]
    more = len(sensors) - _MAX_NAMED
    return ", ".join(sensors[:_MAX_NAMED]) + (f", and {more} more" if more > 0 else "")


def through_text(found: ComparedValue, zone: ZoneInfo) -> str:
    """The instant by which every arrived record is counted, in the store's zone, as text."""
    if found.through is None:
        return f"{NOTHING} (not each of these days has been rebuilt yet)"
    return f"{found.through.astimezone(zone):%-d %b %Y %H:%M} ({zone.key})"


def remainder_text(found: StoreReport, style: UnitStyle) -> str:
    """The part of the value that is on none of the receipts read; empty if there is none."""
    left = found.unexplained
    if left is None or not left.now:
        return ""
    # A negative rest means receipts that the value does not contain, or no longer contains.
    amount = f"{style.text(abs(left.now))} {style.word}"
    if left.now > 0:
        return f"{amount} of the value are on no stored receipt, so in no item."
    return f"The items have {amount} more than the value."


def quality_text(found: ComparedValue) -> str:
    """The meaning of the number's state, in a sentence."""
    if not found.is_explained and found.known == found.windows:
        return "The value has an answer, and the stored receipts do not add up to it."
    match found.state:
        case "unknown":
            return "No quarter hour of these days has an answer yet."
        case "withheld" if found.suppressed is not None:
            return f"The number is withheld: {found.suppressed}."
        case "partial":
            return "Quarter hours without an answer are left out, and are not counted as 0."
        case "estimated":
            return f"Sensors were silent: {silent_text(found)}."
        case "withheld":
            return f"Withheld, because sensors were silent: {silent_text(found)}."
        case "provisional":
            return "Every quarter hour has an answer, and some may still change."
    return "Every quarter hour has its final answer."
