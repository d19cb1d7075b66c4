"""Secrets that sign messages, in a separate file beside the data and never in it."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from runtime.outbound.signing import secret_key
from tally.errors import BadSettings

FILE = "webhook-secrets.json"
# The permission bits of other users of the machine.
_OTHERS = 0o077
# A function from the names of secrets to their keys; raises BadSettings.
KeyLookup = Callable[[Sequence[str]], Sequence[bytes]]
_DECODER = msgspec.json.Decoder(dict[str, str])


class SigningKeys:
    """The secrets of a file, `{"name": "whsec_…"}`, which only its owner may read.

    It is read at each signature: a changed secret needs no restart.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def __call__(self, names: Sequence[str]) -> list[bytes]:
        """The keys of these names. Raises BadSettings, which reveals no secret."""
        named = self._read_secrets()
        if missing := [name for name in names if name not in named]:
            raise BadSettings(f"{self._file}: no secret {missing[0]!r}; add it, or name another")
        return [secret_key(named[name]) for name in names]

    def _read_secrets(self) -> dict[str, str]:
        try:
            if self._file.stat().st_mode & _OTHERS:
                raise BadSettings(f"{self._file}: others may read it; `chmod 600` takes that away")
            return _DECODER.decode(self._file.read_bytes())
        except OSError as error:
            raise BadSettings(
                f"{self._file}: {error.strerror}; TALLY_WEBHOOK_SECRETS names the file of secrets"
            ) from error
        except msgspec.DecodeError as error:
            # The error does not quote the content: it may be a secret.
            raise BadSettings(
                f'{self._file}: no secrets by name, as {{"tablet": "whsec_…"}}'
            ) from error
