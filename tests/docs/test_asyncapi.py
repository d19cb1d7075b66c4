from typing import Any

import jsonschema
import pytest

from ops.docs.asyncapi import asyncapi_document
from schemas.loader import builtin_sources, topics
from tests.support.alerts.alerts import plain, told


def resolved(document: dict[str, Any], reference: str) -> Any:
    found = document
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return found


def test_every_topic_that_has_records_is_a_channel_whose_message_is_there() -> None:
    document = asyncapi_document()

    assert {*document["channels"]} == {*topics()} - {"clock"}
    for name, channel in document["channels"].items():
        assert channel["address"] == channel["bindings"]["kafka"]["topic"] == name
        found = resolved(document, channel["messages"]["record"]["$ref"])
        assert found["payload"]["type"], name


def test_tally_receives_what_senders_send_and_nothing_else() -> None:
    operations = asyncapi_document()["operations"]

    received = {name for name, one in operations.items() if one["action"] == "receive"}
    assert received == {one.raw_topic for one in builtin_sources().values()}


def test_an_alert_is_what_the_document_says() -> None:
    payload = asyncapi_document()["components"]["messages"]["alerts"]["payload"]

    alert = plain(told())
    jsonschema.validate(alert, payload)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**alert, "state": "perhaps"}, payload)
