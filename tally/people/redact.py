"""Redaction of personal data in texts and messages, so that they may be stored.

The cost is linear in their length.
"""

import re
from functools import lru_cache

from tally.people.personal import MAX_FINDS, is_barcode, is_barcode_name, remove_personal_data

MARK = "[redacted]"
# Names whose values are personal in any form. A name may continue after those of the first group,
# those of the second are whole words, and `name` is the whole name: item_name is no person's.
_PERSONAL = (
    r"(?:(?:loyalty|customer|cardholder|phone|mobile|msisdn|mail|iban|passport|birth|address"
    r"|street|bank_?account|account_?(?:no|num)|card_?(?:no|num)|credit_?card"
    r"|(?:first|last|full|user|given|family|middle|holder)[ _.-]{0,2}name|surname)[\w .-]{0,40}+"
    r"|(?<![a-z0-9])(?:mac|pan|tel|cvv|cvc|dob|ssn|bic)|(?<![\w.-])name)"
)
_NAME = re.compile(rf"{_PERSONAL}\Z", re.ASCII)
# The same names in front of a value: with their closing quote in JSON and in JSON inside a text, in
# any form in a broken message.
_QUOTED_KEY = re.compile(rf"""{_PERSONAL}\\*["']\s*+:\s*+""", re.ASCII)
_ANY_KEY = re.compile(rf"""{_PERSONAL}\\*["']?\s*+[:=]\s*+""", re.ASCII)
_STEM = re.compile(
    "loyalty|customer|card|phone|mobile|msisdn|mail|iban|passport|birth|address|street|account"
    "|name|mac|pan|tel|cvv|cvc|dob|ssn|bic"
)
_OPENING = re.compile(r"""(\\*)(["'])""")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_LITERAL = re.compile(r"(?:-?\d[\d.eE+-]*|null|true|false)(?=[\s,}\]]|\Z)", re.ASCII)
_UNQUOTED = re.compile(r"""[^,;&}\]\r\n"]*""")
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
_DEPTHS = {"[": 1, "{": 1, "]": -1, "}": -1}
_MAX_BRACKETS = 1_000
# A value of so many characters is also searched in the rest; a shorter one may be in any text.
_MIN_TELLING, _MAX_TELLING, _MAX_VALUES = 6, 256, 32
# Finds texts that need a closer look; it is cheap enough for every line of every receipt.
_SUSPECT = re.compile(
    r"""[@"'0-9:.-](?:(?<=[@"'])|(?<=\d)(?<!\d\d)(?:\D{0,3}\d){6}"""
    r"""|(?<=[0-9A-Fa-f]{2}[:-])[0-9A-Fa-f]{2}[:-]"""
    r"""|(?<=[0-9A-Fa-f]{4}\.)[0-9A-Fa-f]{4}\.)""",
    re.ASCII,
)
# Escapes of ASCII, except the quote and the backslash: without those two a text stays one text.
_ESCAPED = {
    form: chr(code)
    for code in range(0x20, 0x7F)
    if code not in (0x22, 0x5C)
    for form in {f"{code:02x}", f"{code:02X}"}
}


def redact_message(message: bytes) -> bytes:
    """The message, JSON or not, without personal data, known by its fields' names or its form.

    >>> item = b'"item": "gift for ann@example.org, card 4111 1111 1111 1111"'
    >>> redact_message(b'{"loyalty_id": "ann", ' + item + b"}")
    b'{"loyalty_id": "[redacted]", "item": "gift for [redacted], card [redacted]"}'
    """
    read = _unescape(message.replace(b"\0", b"").decode("latin-1"))
    clean = remove_personal_data(_remove_named_values(read, _ANY_KEY), MARK)
    return message if clean == read else clean.encode("latin-1")


def redact_text(text: str) -> str:
    """The text of one field without personal data.

    >>> redact_text("gift for ann@example.org")
    'gift for [redacted]'
    """
    if _SUSPECT.search(text) is None:
        return text
    read = text.encode("utf-8", "backslashreplace").decode("latin-1")
    clean = remove_personal_data(_remove_named_values(read, _QUOTED_KEY), MARK)
    return clean.encode("latin-1").decode("utf-8", "replace")


def redact_value(name: str, text: str) -> str:
    """The text of the field of this name, without personal data.

    The result is the mark alone if the name is personal. It is the whole text if that is a barcode
    as the name says, or a number where articles are numbered: nine in a hundred of those would pass
    for a payment card.

    >>> redact_value("ean", "4006381333931"), redact_value("phone", "7")
    ('4006381333931', '[redacted]')
    >>> redact_value("item_id", "4453585529008"), redact_value("item", "4453585529008")
    ('4453585529008', '[redacted]')
    """
    if is_personal(name):
        return MARK
    if name == "item_id" and text.isascii() and text.isdigit():
        return text
    return text if is_barcode_name(name) and is_barcode(text) else redact_text(text)


@lru_cache(4096)
def is_personal(name: str) -> bool:
    """Whether all values of a field of this name are personal.

    >>> is_personal("Loyalty-ID"), is_personal("deviceMac"), is_personal("item_name")
    (True, True, False)
    """
    # In lower case, with the words of camelCase separated.
    return _NAME.search(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()) is not None


@lru_cache(16_384)
def is_sensitive(text: str) -> bool:
    """Whether redact_text() might change the text; may err to the safe side.

    The answer is cached, for short texts that come again.

    >>> is_sensitive("Milk 1l"), is_sensitive("card 4111111111111111")
    (False, True)
    """
    return _SUSPECT.search(text) is not None


def _unescape(text: str) -> str:
    """The text with \\u00XX of printable ASCII as the character, also where it is escaped twice."""
    if "\\u00" not in text:
        return text
    while "\\\\u00" in text:
        text = text.replace("\\\\u00", "\\u00")
    first, *others = text.split("\\u00")
    pieces = [first]
    for rest in others:
        form = rest[:2]
        pieces.append(_ESCAPED[form] + rest[2:] if form in _ESCAPED else "\\u00" + rest)
    return "".join(pieces)


def _remove_named_values(text: str, key: re.Pattern[str]) -> str:
    """The text without values behind personal names; long ones are in no other field either."""
    if ":" not in text and "=" not in text:
        return text
    lower = text.encode("latin-1").lower().decode("latin-1")
    if _STEM.search(lower) is None:
        return text
    pieces, end, finds = [], 0, 0
    values: dict[str, None] = {}
    while match := key.search(lower, end):
        finds += 1
        start = match.end()
        stop, shown = _find_value(text, start) if finds < MAX_FINDS else (len(text), MARK)
        pieces += [text[end:start], shown]
        if _MIN_TELLING <= stop - start <= _MAX_TELLING and len(values) < _MAX_VALUES:
            values[text[start:stop].strip("\"'\\ ")] = None
        end = stop
    clean = "".join([*pieces, text[end:]])
    for value in values:
        if len(value) >= _MIN_TELLING and value not in MARK:
            clean = clean.replace(value, MARK)
    return clean


def _find_value(text: str, start: int) -> tuple[int, str]:
    """The end of the value that begins here (also in a cut message), and its replacement."""
    if opening := _OPENING.match(text, start):
        return _find_quoted_value(text, start, opening[0])
    if text[start : start + 1] in ("{", "["):
        return _find_closing_bracket(text, start), f'"{MARK}"'
    if literal := _LITERAL.match(text, start):
        return literal.end(), f'"{MARK}"'
    unquoted = _UNQUOTED.match(text, start)
    end = unquoted.end() if unquoted else len(text)
    return end, MARK if end > start else ""


def _find_quoted_value(text: str, start: int, quote: str) -> tuple[int, str]:
    if quote == '"':
        match = _STRING.match(text, start)
        end = match.end() if match else len(text)
        closed = end - start > 1 and text[end - 1] == '"'
    else:
        place = text.find(quote, start + len(quote))
        while place > 0 and len(quote) > 1 and text[place - 1] == "\\":
            place = text.find(quote, place + 1)
        closed, end = place >= 0, len(text) if place < 0 else place + len(quote)
    return end, quote + MARK + (quote if closed else "")


def _find_closing_bracket(text: str, start: int) -> int:
    depth = 0
    for number, match in enumerate(_BRACKETS.finditer(text, start)):
        depth += _DEPTHS.get(match[0], 0)
        if depth == 0:
            return match.end()
        if number > _MAX_BRACKETS:
            break
    return len(text)
