"""A sender that does what the gateway asks of one: anything but 202 is sent again until it is."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from tenacity import retry, retry_if_exception_type, retry_if_result, stop_after_delay, wait_fixed

PATIENCE_SECONDS = 180.0


def _is_to_be_repeated(answer: httpx.Response) -> bool:
    return answer.status_code in (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE)


@dataclass
class GatewayClient:
    """Posts to one gateway; counts what it had to send again."""

    address: str
    repeats: int = 0
    client: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=300))

    def post(self, path: str, messages: Sequence[bytes]) -> dict[str, Any]:
        """The answer to good messages as one NDJSON body, once they are stored.

        Fails the test when none of them is refused.
        """
        answer = self.offer(path, b"\n".join(messages), "application/x-ndjson")
        found: dict[str, Any] = answer.json()
        assert (answer.status_code, found["rejected"]) == (202, []), answer.text[:2000]
        return found

    def offer(self, path: str, body: bytes, media_type: str) -> httpx.Response:
        """The final answer to any body: 202 or a refusal; unreachable, busy and unavailable are
        asked again."""
        asking = retry(
            retry=retry_if_exception_type(httpx.TransportError)
            | retry_if_result(_is_to_be_repeated),
            stop=stop_after_delay(PATIENCE_SECONDS),
            wait=wait_fixed(0.5),
            before_sleep=self._count,
        )
        return asking(
            lambda: self.client.post(
                f"http://{self.address}{path}", content=body, headers={"Content-Type": media_type}
            )
        )()

    def _count(self, _state: object) -> None:
        self.repeats += 1

    def close(self) -> None:
        """Ends its connections."""
        self.client.close()
