"""Rules as files have them: YAML text to a rule, one a file."""

from typing import Any

from runtime.rules.catalogue import rule_catalogue
from runtime.strict_yaml import yaml_texts, yaml_written
from tally.alerts.rule import Rule, told_rule
from tally.alerts.rule_checks import RuleCatalogue
from tally.alerts.rule_file import checked_rule
from tally.errors import BadRule

# Ids of 10,000 stores as long as they may be, and as much as Kafka's client sends in one record.
MOST_BYTES = 900_000
_MOST_TOLD = 300


def parse_rule(text: str | bytes, catalogue: RuleCatalogue | None = None) -> Rule:
    """The rule that the YAML text is; its metrics are of the catalogue, by default the product's.

    Raises BadRule with one line for each problem: field, what is wrong, the fix.
    """
    try:
        content = text if isinstance(text, bytes) else text.encode()
        # Before the parser sees it: that takes seconds a megabyte.
        if len(content) > MOST_BYTES:
            raise BadRule([f"the text has {len(content):,} bytes; {MOST_BYTES:,} are the most"])
        told = yaml_texts(content)
    # A text with half of a pair of characters has no bytes.
    except ValueError as error:
        raise BadRule([f"it cannot be read as YAML: {_printable(str(error))}"]) from error
    return checked_rule(told, catalogue or rule_catalogue())


def rule_text(rule: Rule) -> str:
    """The YAML text that parse_rule() reads as the rule; what has its default is left out."""
    default = told_rule(Rule(rule_id=rule.rule_id))
    told = told_rule(rule)
    # As a rule of silence is read, its default is another one.
    if rule.kind == "silence":
        default["on_silence"] = "raise"
    named = {name: one for name, one in told.items() if one != default[name]}
    return yaml_written({"rule_id": rule.rule_id, **_texts(named)})


def _texts(value: Any) -> Any:
    """The value with every scalar as the text that is read as it."""
    match value:
        case dict():
            # Of `change` and `sigmas` one is said, and the other is none.
            said = {name: one for name, one in value.items() if one is not None}
            return {name: _texts(one) for name, one in said.items()}
        case list():
            return [_texts(one) for one in value]
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:.6f}".rstrip("0").rstrip(".")
    return str(value)


def _printable(text: str) -> str:
    """The text for a terminal: it quotes the file, of which nobody knows what it holds."""
    signs = (sign if sign.isprintable() else "?" for sign in text[:_MOST_TOLD])
    return "".join(signs)
