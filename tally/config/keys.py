"""Keys that an installation makes for itself, each a file that only its owner can read."""

import os
import secrets
from hashlib import sha256
from hmac import new
from pathlib import Path

from tally.errors import BadSettings

_FOLDER, _FILE = "secrets", "dead-letters.key"
_BYTES = 32


def load_digest_key(home: Path) -> bytes:
    """The key of dead letters' digests, made at the first call. Raises BadSettings without it."""
    file = home / _FOLDER / _FILE
    try:
        if not file.exists():
            _create_key_file(file)
        key = file.read_bytes()
    except OSError as error:
        raise BadSettings(
            f"{file}: the key of dead letters' digests cannot be read or made:"
            f" {error.strerror}; see TALLY_HOME"
        ) from error
    if len(key) != _BYTES:
        raise BadSettings(
            f"{file} has {len(key)} bytes, not {_BYTES};"
            " restore it, or remove it to have a new one made"
        )
    return key


def hmac_digest(key: bytes, message: bytes) -> str:
    """HMAC-SHA-256 in hex: equal for equal messages.

    Without the key the message cannot be guessed from it.

    >>> hmac_digest(b"k", b"m") == hmac_digest(b"k", b"m") != hmac_digest(b"l", b"m")
    True
    """
    return new(key, message, sha256).hexdigest()


def _create_key_file(file: Path) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    own = file.with_name(f"{file.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as content:
            content.write(secrets.token_bytes(_BYTES))
        # A link is created once or not at all: two processes that start together read the same key.
        os.link(own, file)
    except FileExistsError:
        pass
    finally:
        own.unlink(missing_ok=True)
