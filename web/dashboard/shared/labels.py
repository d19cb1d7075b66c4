"""The texts for numbers, units and states."""

from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from serving.questions import catalogue
from serving.questions.catalogue import MetricValue
from tally.errors import UnknownName
from tally.events.money import minor_digits
from web.dashboard.shared.addresses import Period
from web.dashboard.shared.figures import Card, CoverageCounts, Figures, Occupancy

TITLES = {
    "revenue": "Revenue",
    "transactions": "Receipts",
    "average_basket": "Average basket",
    "units": "Units",
}
BADGES = {
    "complete": ("✓", "Complete"),
    "provisional": ("◐", "Provisional"),
    "missing": ("○", "Missing"),
}
# Units that the number's text already contains, so that no word follows it.
_WORDS = {"seconds": "", "fraction": ""}
_AXES = {"seconds": "minutes", "fraction": "%"}
NOTHING = "–"  # never "0", because an unknown number is not zero


def value_text(card: Card, currency: str) -> str:
    """The value with thousands separators: money in major units, an en dash if it is not known.

    >>> value_text(Card("revenue", 1234567, None), "EUR")
    '12,345.67'
    """
    if card.value is None:
        return NOTHING
    if card.metric in ("revenue", "average_basket"):
        return money_text(card.value, currency)
    return f"{card.value:,.3f}".rstrip("0").rstrip(".")


def money_text(minor: float, currency: str) -> str:
    """An amount of minor units in major units, with as many decimals as the currency has."""
    # Only for display: sums and comparisons use minor units.
    digits = minor_digits(currency)
    return f"{minor / 10**digits:,.{digits}f}"


def unit_text(card: Card, currency: str) -> str:
    """The unit of a card."""
    units = {"revenue": currency, "average_basket": f"{currency} a receipt", "units": "units"}
    return units.get(card.metric, "receipts")


def change_text(card: Card, period: Period, compared_quarters: int | None = None) -> str:
    """The change in words and with a sign, so that it does not depend on colour.

    The text also names the compared part if that is not the whole period.

    >>> from datetime import date
    >>> change_text(Card("units", 3, -12.5), Period(date(2017, 1, 7), 7))
    '▼ 12.5 % vs the 7 days before'
    >>> change_text(Card("units", 3, -12.5), Period(date(2017, 1, 7), 7), 4 * 96 + 42)
    '▼ 12.5 % vs the same 4 days 10.5 h of the 7 days before'
    """
    days = f"the {period.length} days before"
    if card.change_percent is None:
        return f"nothing to compare with in {days}"
    if compared_quarters is not None:
        count, rest = divmod(compared_quarters, 96)
        parts = [f"{count} day{'' if count == 1 else 's'}" if count else "", f"{rest / 4:g} h"]
        part = " ".join(filter(None, parts if rest else parts[:1]))
        days = f"the same {part} of {days}"
    return f"{percent_text(card.change_percent)} vs {days}"


def percent_text(percent: float) -> str:
    """A change in per cent with a sign, so that it does not depend on colour.

    >>> percent_text(-12.5), percent_text(0.0)
    ('▼ 12.5 %', 'unchanged')
    """
    if percent == 0:
        return "unchanged"
    return f"{'▲' if percent > 0 else '▼'} {abs(percent):,.1f} %"


def span_text(period: Period) -> str:
    """The first and the last day of a period, as text."""
    return f"{period.first:%a %-d %b %Y} to {period.last:%a %-d %b %Y}"


def coverage_text(coverage: CoverageCounts) -> str:
    """The meaning of the coverage badge, in a sentence or two."""
    if coverage.state == "missing":
        return "Neither layer knows anything of this period. That is not the same as no sales."
    counted = ""
    if coverage.through:
        counted = f"Every record that had arrived by {_instant(coverage.through)} is counted."
    if coverage.state == "complete":
        return counted
    if coverage.settled_until:
        parts = [f"Final up to {_instant(coverage.settled_until)}"]
    else:
        parts = [f"{_quarters(coverage.complete)} are final"]
    if coverage.provisional:
        parts.append(f"{_quarters(coverage.provisional)} may still change")
    if coverage.missing:
        have = "has" if coverage.missing == 1 else "have"
        missing = f"{_quarters(coverage.missing)} {have} no answer"
        parts.append(f"{missing}, which is not counted as zero")
    return f"{'; '.join(parts)}. {counted}".rstrip()


def _quarters(count: int) -> str:
    return f"{count:,} quarter hour{'' if count == 1 else 's'}"


def _instant(instant: datetime) -> str:
    return f"{instant_text(instant, ZoneInfo('UTC'))} UTC"


def note_text(figures: Figures) -> str:
    """A note on the currencies that the amounts leave out; empty if there are none."""
    others = ", ".join(figures.other_currencies)
    return f"Money in {others} is not shown." if others else ""


@dataclass(frozen=True)
class UnitStyle:
    """A unit of the metric catalogue; `currency` is used if the unit is money."""

    unit: str
    currency: str

    def text(self, value: MetricValue) -> str:
        """The number as text; an en dash if it is not known.

        >>> UnitStyle("seconds", "EUR").text(1212.999), UnitStyle("fraction", "EUR").text(0.0837)
        ('20 min 13 s', '8.4 %')
        >>> UnitStyle("visits", "EUR").text(12345), UnitStyle("visits", "EUR").text(3.166667)
        ('12,345', '3.2')
        """
        if value is None:
            return NOTHING
        match self.unit:
            case "minor":
                return money_text(value, self.currency)
            case "seconds":
                return duration_text(value)
            case "fraction":
                return f"{100 * value:,.1f} %"
        # A mean of counts always has its decimal, so that a column of means is aligned.
        return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"

    @property
    def word(self) -> str:
        """The word after the number; empty if the number's text contains the unit."""
        return self.currency if self.unit == "minor" else _WORDS.get(self.unit, self.unit)

    @property
    def axis(self) -> str:
        """The unit of a chart's axis."""
        return self.currency if self.unit == "minor" else _AXES.get(self.unit, self.unit)

    def axis_value(self, value: MetricValue) -> float | None:
        """The number on a chart's axis: major units, minutes or per cent. Only for display."""
        if value is None:
            return None
        match self.unit:
            case "minor":
                return round(value / float(10 ** minor_digits(self.currency)), 2)
            case "seconds":
                # Minutes, because an axis in seconds would run into thousands.
                return round(value / 60, 2)
            case "fraction":
                return round(100 * value, 2)
        return round(value, 2)


def duration_text(seconds: float) -> str:
    """A length of time in whole seconds.

    >>> duration_text(59.7), duration_text(1200), duration_text(4813)
    ('1 min', '20 min', '1 h 20 min 13 s')
    """
    # Rounded before it is split; otherwise 59.7 s would become 60 s instead of 1 min.
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [(hours, "h"), (minutes, "min"), (rest, "s")]
    return " ".join(f"{count:,} {unit}" for count, unit in parts if count) or "0 s"


def number_text(metric_id: str, number: float, currency: str) -> str:
    """A metric's number with its unit, or without one if the metric no longer exists."""
    whole = int(number) if float(number).is_integer() else number
    try:
        style = UnitStyle(catalogue.metric(metric_id).entry.unit, currency)
    except UnknownName:
        return f"{whole:,}"
    return f"{style.text(whole)} {style.word}".rstrip()


def instant_text(instant: datetime, zone: ZoneInfo) -> str:
    """The day and the time of an instant in a time zone.

    >>> instant_text(datetime.fromisoformat("2026-11-23T09:02:05Z"), ZoneInfo("Europe/Rome"))
    '23 Nov 2026 10:02'
    """
    return f"{instant.astimezone(zone):%-d %b %Y %H:%M}"


def day_state_text(inside: Occupancy) -> str:
    """The day, and how much is known of it, as text."""
    known = sum(level is not None for _, level in inside.levels)
    if inside.watch.is_withheld:
        state = "withheld, for counters were silent"
    elif known == 0:
        state = "not known, for its first quarter hour is missing"
    elif not inside.is_counted:
        state = "no people counter has reported anything for it"
    elif known < len(inside.levels):
        state = f"{known} of {len(inside.levels)} quarter hours known: up to the first missing one"
    elif not inside.watch.is_enough:
        state = "estimated, for counters were silent"
    else:
        state = "complete" if inside.is_settled else "provisional"
    return f"{inside.day:%a %-d %b}: {state}"


def residue_text(inside: Occupancy) -> str:
    """The residue at the end of the day as text, or why it is not known."""
    if inside.residue is None:
        return "Left over at the end of the day: not known before all of it is"
    meaning = "Of an empty store this is the error of the counters"
    return f"Left over at the end of the day: {inside.residue:,}. {meaning}"
