"""Rules as YAML files, one rule per file: parsing and writing."""

from typing import Any

from alerting.rules.checks import RuleCatalogue
from alerting.rules.rule import Rule, rule_to_fields
from alerting.rules.rule_file import rule_from_fields, validate_rule
from alerting.rules.store.catalogue import rule_catalogue
from runtime.registry.strict_yaml import dump_yaml, parse_yaml
from tally.errors import BadRule

# Room for the ids of 10,000 stores at full length, within what Kafka's client sends in one record.
MAX_BYTES = 900_000
_MAX_CHARACTERS = 300


def parse_rule_yaml(text: str | bytes, catalogue: RuleCatalogue | None = None) -> Rule:
    """Parse the YAML text as a rule; metrics are of the catalogue, by default the product's.

    Raises BadRule with one line for each problem: field, what is wrong, the fix.
    """
    try:
        content = text if isinstance(text, bytes) else text.encode()
        # Checked before parsing: the parser takes seconds per megabyte.
        if len(content) > MAX_BYTES:
            raise BadRule([f"the text has {len(content):,} bytes; {MAX_BYTES:,} are the most"])
        document = parse_yaml(content)
    # A text with half of a surrogate pair cannot be encoded.
    except ValueError as error:
        raise BadRule([f"it cannot be read as YAML: {_escape_excerpt(str(error))}"]) from error
    return validate_rule(document, catalogue or rule_catalogue())


def dump_rule_yaml(rule: Rule) -> str:
    """The YAML text that parse_rule_yaml() reads as the rule; fields with their default are left
    out."""
    plain = rule_from_fields({"rule_id": rule.rule_id, "kind": rule.kind})
    default = rule_to_fields(plain) | {"kind": "threshold"}
    values = rule_to_fields(rule)
    named = {name: value for name, value in values.items() if value != default[name]}
    return dump_yaml({"rule_id": rule.rule_id, **_to_texts(named)})


def _to_texts(value: Any) -> Any:
    """The value with every scalar as the text from which it is parsed."""
    match value:
        case dict():
            # One of `change` and `sigmas` is given, and the other is None.
            values = {name: entry for name, entry in value.items() if entry is not None}
            return {name: _to_texts(entry) for name, entry in values.items()}
        case list():
            return [_to_texts(entry) for entry in value]
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:.6f}".rstrip("0").rstrip(".")
    return str(value)


def _escape_excerpt(text: str) -> str:
    """The text made safe for a terminal: it quotes the file, whose content is untrusted."""
    signs = (sign if sign.isprintable() else "?" for sign in text[:_MAX_CHARACTERS])
    return "".join(signs)
