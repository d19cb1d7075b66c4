"""Numbers and states of the page in words."""

from serving.dashboard.figures import Card, Coverage, Figures
from serving.dashboard.period import Period
from tally.money import minor_digits

TITLES = {"revenue": "Revenue", "transactions": "Receipts", "average_basket": "Average basket", "units": "Units"}
MONEY = ("revenue", "average_basket")
BADGES = {"complete": ("✓", "Complete"), "provisional": ("◐", "Provisional"), "missing": ("○", "Missing")}
NOTHING = "–"


def value_text(card: Card, currency: str) -> str:
    """The value with its thousands apart; money in major units, an en dash for what is not known.

    >>> value_text(Card("revenue", 1234567, None), "EUR")
    '12,345.67'
    """
    if card.value is None:
        return NOTHING
    if card.metric in MONEY:
        digits = minor_digits(currency)
        return f"{card.value / 10**digits:,.{digits}f}"
    return f"{card.value:,.3f}".rstrip("0").rstrip(".")


def unit_text(card: Card, currency: str) -> str:
    """The unit of a card."""
    return {"revenue": currency, "average_basket": f"{currency} a receipt", "units": "units"}.get(card.metric, "receipts")


def change_text(card: Card, period: Period) -> str:
    """The change in words and with a sign, so that it does not hang on a colour.

    >>> from datetime import date
    >>> change_text(Card("units", 3, -12.5), Period(date(2017, 1, 7), 7))
    '▼ 12.5 % on the 7 days before'
    """
    if card.change_percent is None:
        return f"nothing to compare in the {period.length} days before"
    sign = "▲" if card.change_percent > 0 else "▼" if card.change_percent < 0 else "="
    return f"{sign} {abs(card.change_percent):,.1f} % on the {period.length} days before"


def coverage_text(coverage: Coverage) -> str:
    """What the badge stands for, in a sentence."""
    through = f"{coverage.through:%-d %b %Y, %H:%M} UTC" if coverage.through else None
    total = coverage.complete + coverage.provisional + coverage.missing
    if coverage.state == "complete":
        return f"Every record that had arrived by {through} is counted." if through else "Every quarter hour is covered by a rebuild."
    if coverage.state == "missing":
        return "Neither layer has anything for this period: that is not the same as no sales."
    parts = [f"{coverage.complete:,} of {total:,} quarter hours are final"]
    if coverage.provisional:
        parts.append(f"{coverage.provisional:,} may still change")
    if coverage.missing:
        parts.append(f"{coverage.missing:,} have no answer yet and are not counted as zero")
    counted = f" All records that had arrived by {through} are counted." if through else ""
    return ", ".join(parts) + "." + counted


def note_text(figures: Figures) -> str:
    """What the money does not hold, if anything."""
    return f"Money in {', '.join(figures.other_currencies)} is not shown." if figures.other_currencies else ""
