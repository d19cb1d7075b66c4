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
# The limits of a key in bytes, from the specification.
_LEAST, _MOST = 24, 64


def secret_key(text: str) -> bytes:
    """The key in a secret of the form `whsec_` and base64. Raises BadSettings."""
    try:
        key = b64decode(text.removeprefix(PREFIX), validate=True)
    # The error does not contain the secret, because it is written to a log.
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
    """The signature of a body as `v1,…`; `seconds` since 1970: the instant of the attempt."""
    signed = b"%s.%d.%s" % (message_id.encode(), seconds, body)
    return "v1," + b64encode(hmac.new(key, signed, sha256).digest()).decode()


def webhook_headers(
    keys: Sequence[bytes], message_id: str, seconds: int, body: bytes
) -> dict[str, str]:
    """The headers of one attempt by name, with one signature for each key in sequence.

    There are two keys during a rotation of secrets; a receiver accepts the message if either
    signature is right.
    """
    signatures = [signature(key, message_id, seconds, body) for key in keys]
    return {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": " ".join(signatures),
    }
