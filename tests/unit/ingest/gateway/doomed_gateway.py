"""`python -m tests.unit.ingest.gateway.doomed_gateway WHERE`: its producer meets a fatal error in
`produce`, `report` or `callback`."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException

import ingest.gateway.__main__ as gateway

FATAL = KafkaError(KafkaError._FATAL, "sequence is out of order")


class DoomedProducer:
    """Fails as the client library does: with the code alone in a delivery report, where fatal()
    is False."""

    def __init__(self, where: str, configuration: Mapping[str, Any]) -> None:
        self.where = where
        self.note = configuration.get("error_cb", lambda _error: None)
        self.waiting: list[Callable[[Any, Any], None]] = []

    def produce(
        self, _topic: str, _value: bytes, _key: str, on_delivery: Callable[[Any, Any], None]
    ) -> None:
        if self.where == "produce":
            raise KafkaException(FATAL)
        self.waiting.append(on_delivery)

    def poll(self, _seconds: float) -> None:
        while self.waiting:
            self.waiting.pop()(
                FATAL if self.where == "report" else KafkaError(KafkaError._MSG_TIMED_OUT), None
            )
            if self.where == "callback":
                self.note(FATAL)

    def flush(self, _seconds: float) -> int:
        return 0

    def list_topics(self, _topic: str, _seconds: float) -> Any:
        raise KafkaException(FATAL)


if __name__ == "__main__":
    vars(gateway)["kafka_producer"] = lambda _settings, configuration: DoomedProducer(
        sys.argv[1], configuration
    )
    sys.exit(gateway.main())
