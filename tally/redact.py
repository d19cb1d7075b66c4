"""Bytes with card numbers and e-mail addresses blacked out, fit to be stored in a dead letter."""

import re

_EMAIL = re.compile(rb"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9.-]{1,253}\.[A-Za-z]{2,}")
_MANY_DIGITS = re.compile(r"\d[\d -]{11,}\d", re.ASCII)
_CARD = re.compile(rb"(?<![\d.])\d(?:[ -]?\d){12,18}(?!\d)")


def redacted(message: bytes) -> bytes:
    """The message with what looks like a payment card number (13 to 19 digits) or an e-mail address replaced.

    >>> redacted(b'{"item": "gift for ann@example.org, card 4111 1111 1111 1111"}')
    b'{"item": "gift for [redacted], card [redacted]"}'
    """
    return _CARD.sub(b"[redacted]", _EMAIL.sub(b"[redacted]", message))


def redacted_text(text: str) -> str:
    """The text with what looks like a payment card number or an e-mail address replaced.

    >>> redacted_text("gift for ann@example.org")
    'gift for [redacted]'
    """
    return redacted(text.encode()).decode()


def is_sensitive(text: str) -> bool:
    """Whether redacted_text() might change the text; quick, and may err to the safe side.

    >>> is_sensitive("Milk 1l"), is_sensitive("card 4111111111111111")
    (False, True)
    """
    return "@" in text or _MANY_DIGITS.search(text) is not None
