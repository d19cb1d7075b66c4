"""Signatures as the Standard Webhooks specification has them, by its own example."""

from base64 import b64encode

import pytest

from runtime.outbound.signing import secret_key, signature, webhook_headers
from tally.errors import BadSettings

# Those of the specification's libraries: their tests sign this and expect that.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
MESSAGE_ID, SECONDS, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
PUBLISHED = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_published_example_has_the_published_signature() -> None:
    assert signature(secret_key(SECRET), MESSAGE_ID, SECONDS, BODY) == PUBLISHED


def test_a_secret_is_the_same_without_its_prefix() -> None:
    assert secret_key(SECRET.removeprefix("whsec_")) == secret_key(SECRET)


def test_while_a_secret_follows_another_both_have_signed() -> None:
    new = b64encode(b"n" * 32).decode()
    keys = [secret_key(new), secret_key(SECRET)]

    headers = webhook_headers(keys, MESSAGE_ID, SECONDS, BODY)

    first, second = headers["webhook-signature"].split(" ")
    assert (first, second) == (signature(keys[0], MESSAGE_ID, SECONDS, BODY), PUBLISHED)
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == (MESSAGE_ID, str(SECONDS))


@pytest.mark.parametrize("changed", [(MESSAGE_ID + "x", 0, b""), ("", 1, b""), ("", 0, b" ")])
def test_another_id_instant_or_byte_has_another_signature(changed: tuple[str, int, bytes]) -> None:
    message_id, seconds, more = changed

    found = signature(secret_key(SECRET), message_id or MESSAGE_ID, SECONDS + seconds, BODY + more)

    assert found != PUBLISHED


@pytest.mark.parametrize(
    "secret",
    [
        "whsec_",
        "whsec_kurz",
        "whsec_!!!!",
        "whsec_" + b64encode(b"k" * 23).decode(),
        "whsec_" + b64encode(b"k" * 65).decode(),
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n",
        "whsec_" + "ä" * 32,
    ],
)
def test_a_secret_that_is_none_is_refused_and_not_told(secret: str) -> None:
    with pytest.raises(BadSettings) as found:
        secret_key(secret)

    assert secret.removeprefix("whsec_") == "" or secret.removeprefix("whsec_") not in str(
        found.value
    )
