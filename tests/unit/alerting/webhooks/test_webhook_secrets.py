"""The file of what signs webhooks."""

import json
from functools import partial
from pathlib import Path

import pytest

from runtime.outbound.signing import read_signing_keys, secret_key
from tally.errors import BadSettings

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def kept(folder: Path, content: str, mode: int = 0o600) -> Path:
    file = folder / "secrets.json"
    file.write_text(content, "utf-8")
    file.chmod(mode)
    return file


def test_a_secret_is_read_when_it_is_needed(tmp_path: Path) -> None:
    keys = partial(read_signing_keys, kept(tmp_path, json.dumps({"old": SECRET})))
    assert keys(("old",)) == [secret_key(SECRET)]

    new = "whsec_" + "bmV3" * 8
    kept(tmp_path, json.dumps({"old": SECRET, "new": new}))

    assert keys(("new", "old")) == [secret_key(new), secret_key(SECRET)]


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        (json.dumps({"old": SECRET}), 0o640, "chmod 600"),
        (json.dumps({"old": SECRET}), 0o604, "chmod 600"),
        (json.dumps({"other": SECRET}), 0o600, "no secret 'old'"),
        (json.dumps({"old": SECRET + "!"}), 0o600, "no base64"),
        (json.dumps([SECRET]), 0o600, "no secrets by name"),
        (SECRET, 0o600, "no secrets by name"),
        ("", 0o600, "no secrets by name"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_and_nothing_of_it_is_told(
    tmp_path: Path, content: str, mode: int, words: str
) -> None:
    with pytest.raises(BadSettings, match=words) as found:
        read_signing_keys(kept(tmp_path, content, mode), ("old",))

    assert SECRET.removeprefix("whsec_") not in str(found.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="TALLY_WEBHOOK_SECRETS"):
        read_signing_keys(tmp_path / "none.json", ("old",))
