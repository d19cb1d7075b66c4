"""The limits of concurrent calls: for the process, for each address, and one for a failing address.

An address fails when its calls failed OPENS_AFTER times in a row.
"""

from collections import Counter
from collections.abc import Iterable
from urllib.parse import urlsplit

from alerting.deliver.state.records import WebhookMessage
from runtime.outbound.caller import OutboundAnswer
from runtime.outbound.retries import classify_answer

# The most concurrent calls to one address, and in the whole process.
MAX_ADDRESS_CALLS, MAX_CALLS = 8, 64
# After this number of failures in a row an address gets one call at a time.
OPENS_AFTER = 5


class CircuitBreakers:
    """The circuit breakers of all addresses, as counts of failures in a row.

    An open breaker lets a single call pass at a time, and the first success closes it. The counts
    are only in memory: after a restart an address has OPENS_AFTER calls until its breaker opens.
    """

    def __init__(self) -> None:
        self._failures: Counter[str] = Counter()

    def record_answer(self, url: str, answer: OutboundAnswer) -> None:
        """Counts the result of a call; a status that decides the message's outcome is a success."""
        has_failed = classify_answer(answer) in ("blocked", "again", "in doubt")
        self._failures[url_origin(url)] = self._failures[url_origin(url)] + 1 if has_failed else 0

    def max_calls(self, address: str) -> int:
        """The most concurrent calls to an address."""
        return 1 if self._failures[address] >= OPENS_AFTER else MAX_ADDRESS_CALLS


class CallCapacity:
    """The remaining capacity for calls, over all partitions of the process."""

    def __init__(self, under_way: Iterable[str], breakers: CircuitBreakers) -> None:
        self._calls = Counter(map(url_origin, under_way))
        self._breakers = breakers

    def reserve(self, message: WebhookMessage) -> bool:
        """Takes a place for one more call; returns whether there was one."""
        address = url_origin(message.url)
        is_full = self._calls.total() >= MAX_CALLS
        if is_full or self._calls[address] >= self._breakers.max_calls(address):
            return False
        self._calls[address] += 1
        return True


def url_origin(url: str) -> str:
    """The scheme, host and port of a URL, which several channels may share.

    >>> url_origin("https://tablet.example:8443/alerts?a=b")
    'https://tablet.example:8443'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
