"""Rules as files have them: YAML text to a rule, one a file."""

from runtime.rules.catalogue import rule_catalogue
from runtime.strict_yaml import yaml_texts
from tally.alerts.rule import Rule
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


def _printable(text: str) -> str:
    """The text for a terminal: it quotes the file, of which nobody knows what it holds."""
    signs = (sign if sign.isprintable() else "?" for sign in text[:_MOST_TOLD])
    return "".join(signs)
