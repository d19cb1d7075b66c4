"""A unit of the catalogue as people read it, and as charts draw it."""

from dataclasses import dataclass

from serving.dashboard.labels import NOTHING, money_text
from serving.query.formulas import MetricValue
from tally.money import minor_digits

# What is written with the number itself, and needs no word behind it.
_WORDS = {"seconds": "", "fraction": ""}
_AXES = {"seconds": "minutes", "fraction": "%"}


@dataclass(frozen=True)
class UnitStyle:
    """A unit of the metric catalogue; `currency` is that of money."""

    unit: str
    currency: str

    def text(self, value: MetricValue) -> str:
        """The number for people; an en dash for what is not known.

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
        # A mean of counts; always with its decimal, so that a column of them is aligned.
        return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"

    @property
    def word(self) -> str:
        """What stands behind the number; empty where the number says it."""
        return self.currency if self.unit == "minor" else _WORDS.get(self.unit, self.unit)

    @property
    def axis(self) -> str:
        """What a chart's axis measures."""
        return self.currency if self.unit == "minor" else _AXES.get(self.unit, self.unit)

    def drawn(self, value: MetricValue) -> float | None:
        """The number of the chart's axis: major units, minutes, percent. For the eye alone."""
        if value is None:
            return None
        match self.unit:
            case "minor":
                return round(value / float(10 ** minor_digits(self.currency)), 2)
            case "seconds":
                # Minutes: in seconds the axis would be of thousands.
                return round(value / 60, 2)
            case "fraction":
                return round(100 * value, 2)
        return round(value, 2)


def duration_text(seconds: float) -> str:
    """A length of time in whole seconds.

    >>> duration_text(59.7), duration_text(1200), duration_text(4813)
    ('1 min', '20 min', '1 h 20 min 13 s')
    """
    # Rounded before it is parted, or 59.7 s would be 60 s and no minute.
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [(hours, "h"), (minutes, "min"), (rest, "s")]
    return " ".join(f"{count:,} {unit}" for count, unit in parts if count) or "0 s"
