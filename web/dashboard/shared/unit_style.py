"""Units of the metric catalogue, as text for people and as numbers for charts."""

from dataclasses import dataclass

from serving.metrics.formulas import MetricValue
from tally.events.money import minor_digits
from web.dashboard.shared.labels import NOTHING, money_text

# Units that the number's text already contains, so that no word follows it.
_WORDS = {"seconds": "", "fraction": ""}
_AXES = {"seconds": "minutes", "fraction": "%"}


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
