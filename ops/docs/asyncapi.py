"""The Kafka topics as one AsyncAPI 3 document, for programs that read or write them."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from ops.provision import partition_count, topic_configuration
from runtime.process.files import REPOSITORY
from schemas.generated import SCHEMA_VERSION
from schemas.loader import builtin_sources, event_schema, message_schema, record_schema, topics
from tally.config.settings import Settings

_DESCRIPTION = (
    "Made from schemas/ and the sources' folders by python -m ops.docs; do not edit."
    " Read with isolation.level=read_committed: what a transaction has not committed is no record."
    " Fields may be added; pass over those that you do not know."
)
# AsyncAPI accepts a JSON Schema except for these keywords.
_ONLY_JSON_SCHEMA = ("$schema", "title")
_KAFKA = "0.5.0"
# Part of a JSON document.
AsyncApiObject: TypeAlias = dict[str, Any]


def asyncapi_text() -> str:
    """The document as JSON text, of Tally's own sources."""
    return json.dumps(asyncapi_document(), indent=2, ensure_ascii=False) + "\n"


def asyncapi_document() -> AsyncApiObject:
    """The document: one channel per topic, with its configuration by the default settings.

    Operations are from Tally's side: it receives raw records, and sends records that others read.
    Durations are in milliseconds, sizes in bytes, as in Kafka.
    """
    # The clock's topic has probe records that serve only to read the brokers' time.
    described = {name: topic for name, topic in topics().items() if name != "clock"}
    operations = {name: _operation(name, topic["kind"]) for name, topic in described.items()}
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "Tally", "version": f"{SCHEMA_VERSION}.0.0", "description": _DESCRIPTION},
        "defaultContentType": "application/json",
        "channels": {name: _channel(name, topic) for name, topic in described.items()},
        "operations": operations,
        "components": {"messages": dict(_messages())},
    }


def _channel(name: str, topic: Mapping[str, str]) -> AsyncApiObject:
    # Defaults as on the page of settings: without the environment variables of this machine.
    settings, kind = Settings.model_construct(), topic["kind"]
    configuration = topic_configuration(kind, settings)
    shown = {
        "cleanup.policy": [configuration.get("cleanup.policy", "delete")],
        "retention.ms": int(configuration["retention.ms"]),
        "max.message.bytes": int(configuration["max.message.bytes"]),
    }
    kafka = {
        "topic": name,
        "partitions": partition_count(kind, settings),
        "topicConfiguration": shown,
        "bindingVersion": _KAFKA,
    }
    messages = {"record": {"$ref": f"#/components/messages/{name}"}}
    what = {"address": name, "description": topic["meaning"], "messages": messages}
    return {**what, "bindings": {"kafka": kafka}}


def _operation(name: str, kind: str) -> AsyncApiObject:
    return {
        "action": "receive" if kind == "raw" else "send",
        "channel": {"$ref": f"#/channels/{name}"},
        "messages": [{"$ref": f"#/channels/{name}/messages/record"}],
    }


def _messages() -> Iterator[tuple[str, AsyncApiObject]]:
    store = {"type": "string", "minLength": 1, "x-meaning": "store_id"}
    for name, source in builtin_sources().items():
        # No reader uses the key of a raw record; the gateway writes the store's.
        yield source.raw_topic, _message(message_schema(name), {})
        yield name, _message(event_schema(name), {"key": store})
    for name in topics():
        file = REPOSITORY / "schemas" / "topics" / f"{name}.schema.json"
        if file.exists():
            schema = record_schema(name)
            record = schema["properties"]
            yield name, _message({**record["value"], "title": schema["title"]}, record)


def _message(schema: AsyncApiObject, record: AsyncApiObject) -> AsyncApiObject:
    """A message: the schema of its value, and the key and headers that `record` describes."""
    kafka = {"bindingVersion": _KAFKA}
    if "key" in record:
        kafka["key"] = record["key"]
    payload = {name: value for name, value in schema.items() if name not in _ONLY_JSON_SCHEMA}
    message = {"title": schema["title"], "payload": payload, "bindings": {"kafka": kafka}}
    if record.get("headers", {}).get("properties"):
        message["headers"] = record["headers"]
    return message
