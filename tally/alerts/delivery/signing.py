"""Signatures of the Standard Webhooks specification: HMAC-SHA256 over id, instant and body.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import hmac
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Sequence
from hashlib import sha256

from tally.errors import BadSettings

PREFIX = "whsec_"
# Bytes, as the specification has them.
_LEAST, _MOST = 24, 64


def secret_key(text: str) -> bytes:
    """The key that a secret, `whsec_` and base64, stands for. Raises BadSettings."""
    try:
        key = b64decode(text.removeprefix(PREFIX), validate=True)
    # What it was is not told: it would stand in a log.
    except (Error, ValueError) as error:
        raise BadSettings(
            "a webhook's secret is no base64 behind whsec_; make a new one"
        ) from error
    if not _LEAST <= len(key) <= _MOST:
        raise BadSettings(
            f"a webhook's secret is of {len(key)} bytes; make one of {_LEAST} to {_MOST}"
        )
    return key


def signature(key: bytes, message_id: str, seconds: int, body: bytes) -> str:
    """The signature of a body as `v1,…`; `seconds` since 1970, when the attempt is made."""
    signed = b"%s.%d.%s" % (message_id.encode(), seconds, body)
    return "v1," + b64encode(hmac.new(key, signed, sha256).digest()).decode()


def webhook_headers(
    keys: Sequence[bytes], message_id: str, seconds: int, body: bytes
) -> dict[str, str]:
    """The headers of one attempt by name; as many signatures as keys, one behind the other.

    Two while a secret follows another: a receiver takes the message if one of them is right.
    """
    signatures = [signature(key, message_id, seconds, body) for key in keys]
    return {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": " ".join(signatures),
    }
