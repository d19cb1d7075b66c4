"""Signatures of the Standard Webhooks specification: HMAC-SHA256 over id, instant and body.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md

The secrets are in a separate file beside the data and never in it.
"""

import hmac
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

import msgspec

from tally.errors import BadSettings

PREFIX = "whsec_"
# The limits of a key in bytes, from the specification.
_LEAST, _MOST = 24, 64
FILE = "webhook-secrets.json"
# The permission bits of other users of the machine.
_OTHERS = 0o077
# A function from the names of secrets to their keys; raises BadSettings.
KeyLookup = Callable[[Sequence[str]], Sequence[bytes]]
_DECODER = msgspec.json.Decoder(dict[str, str])


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


def read_signing_keys(file: Path, names: Sequence[str]) -> list[bytes]:
    """The keys of these names in a file `{"name": "whsec_…"}`, which only its owner may read.

    It is read at each signature: a changed secret needs no restart. Raises BadSettings, which
    reveals no secret.
    """
    try:
        if file.stat().st_mode & _OTHERS:
            raise BadSettings(f"{file}: others may read it; `chmod 600` takes that away")
        named = _DECODER.decode(file.read_bytes())
    except OSError as error:
        raise BadSettings(
            f"{file}: {error.strerror}; TALLY_WEBHOOK_SECRETS names the file of secrets"
        ) from error
    except msgspec.DecodeError as error:
        # The error does not quote the content: it may be a secret.
        raise BadSettings(f'{file}: no secrets by name, as {{"tablet": "whsec_…"}}') from error
    if missing := [name for name in names if name not in named]:
        raise BadSettings(f"{file}: no secret {missing[0]!r}; add it, or name another")
    return [secret_key(named[name]) for name in names]
