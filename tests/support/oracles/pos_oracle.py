"""What a receipt adds to its window, read from the text of rules.yaml: nothing of Tally takes
part."""

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import yaml

RULES = yaml.safe_load(
    (Path(__file__).parents[3] / "ingest" / "sources" / "sales" / "rules.yaml").read_text("utf-8")
)
DECIMALS = {"JPY": 0, "BHD": 3}
PARTS = (
    "receipts",
    "gross_minor",
    "discounts_minor",
    "returns_minor",
    "voids_minor",
    "units_milli",
    "returned_receipts",
    "non_sales_minor",
    "rounding_minor",
)
PAYMENTS = ("tender", "change", "rounding", "gift_card_redeemed", "tax")
FORMULAS = {
    "total": lambda total, amount: total,
    "-total": lambda total, amount: -total,
    "amount": lambda total, amount: amount,
    "-amount": lambda total, amount: -amount,
}


def rule_of(message: Mapping[str, Any]) -> str | None:
    """The rule by which the receipt adds nothing."""
    facts = {
        "training": message.get("training", False),
        "status": message.get("transaction_status", "finished"),
    }
    return next((rule["id"] for rule in RULES["left_out"] if _holds(rule, facts)), None)


def parts_of(message: Mapping[str, Any]) -> tuple[int, ...]:
    """What the receipt of a well-formed message adds, in the order of PARTS."""
    sums: Counter[str] = Counter()
    if rule_of(message) is None:
        kind, met = message.get("kind", "sale"), []
        takes_back = kind == "void" and "voids" in message
        if takes_back:
            kind = RULES["post_void"]["takes_back_as"]
        turn = -1 if kind == "return" and is_written_as_a_sale(message) else 1
        for line in message["transactions"]:
            total = turn * minor(line, message.get("currency", "USD"))
            amount = turn * thousandths(line)
            facts = {
                "kind": kind,
                "type": line.get("line_type", "item"),
                "cancelled": line.get("cancelled", False),
                "total": _sign(total),
                "amount": _sign(amount),
            }
            rule = _first(RULES["lines"], facts)
            met.append(rule["id"])
            for part, formula in rule["adds"].items():
                sums[part] += FORMULAS[formula](total, amount)
        for rule in RULES["receipts"]:
            asked = dict(rule["when"])
            if set(asked.pop("met")) & set(met) and _holds({"when": asked}, {"kind": kind}):
                sums.update(rule["adds"])
                break
        if takes_back:
            sums = Counter({part: -value for part, value in sums.items()})
    return tuple(sums[part] for part in PARTS)


def is_written_as_a_sale(message: Mapping[str, Any]) -> bool:
    """Whether the lines of a return have the signs of goods that were sold."""
    sold = [
        line
        for line in message["transactions"]
        if not line.get("cancelled") and line.get("line_type", "item") not in PAYMENTS
    ]
    money = sum(minor(line, message.get("currency", "USD")) for line in sold)
    return (money or sum(thousandths(line) for line in sold)) > 0


def revenue_of(parts: Sequence[int]) -> int:
    """Of the parts of sales, in the order of PARTS: what was sold, less what lowers it."""
    by_name = dict(zip(PARTS, parts, strict=True))
    less = ("discounts_minor", "returns_minor", "voids_minor")
    return by_name["gross_minor"] - sum(by_name[name] for name in less)


def minor(line: Mapping[str, Any], currency: str) -> int:
    """The line's total in minor units, half away from zero."""
    total = line["total"] if "total" in line else _decimal(line["price"]) * _decimal(line["amount"])
    units = _decimal(total) * 10 ** DECIMALS.get(currency, 2)
    return int(units.quantize(Decimal(1), ROUND_HALF_UP))


def thousandths(line: Mapping[str, Any]) -> int:
    """The line's amount in thousandths."""
    return int((_decimal(line["amount"]) * 1000).quantize(Decimal(1), ROUND_HALF_UP))


def _decimal(number: Any) -> Decimal:
    # Without the noise of binary floats.
    return Decimal(str(number)).quantize(Decimal("1e-9"))


def _first(rules: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> Mapping[str, Any]:
    return next(rule for rule in rules if _holds(rule, facts))


def _holds(rule: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
    asked = {name: of if isinstance(of, list) else [of] for name, of in rule["when"].items()}
    return all(facts[name] in of for name, of in asked.items())


def _sign(number: int) -> str:
    return "zero" if not number else ("positive" if number > 0 else "negative")
