"""The limits of concurrent calls: for the process, for each address, and one for a failing address.

An address fails when its calls failed OPENS_AFTER times in a row.
"""

from collections import Counter
from collections.abc import Iterable
from urllib.parse import urlsplit

from tally.alerts.delivery.attempts import WebhookAnswer, meaning

# The most concurrent calls to one address, and in the whole process.
MOST_CALLS, MOST_IN_ALL = 8, 64
# After this number of failures in a row an address gets one call at a time.
OPENS_AFTER = 5


class Breakers:
    """The circuit breakers of all addresses, as counts of failures in a row.

    An open breaker lets a single call pass at a time, and the first success closes it. The counts
    are only in memory: after a restart an address has OPENS_AFTER calls until its breaker opens.
    """

    def __init__(self) -> None:
        self._failures: Counter[str] = Counter()

    def note(self, url: str, answer: WebhookAnswer) -> None:
        """Counts the result of a call; a status that decides the message's outcome is a success."""
        has_failed = meaning(answer) in ("blocked", "again", "in doubt")
        self._failures[address_of(url)] = self._failures[address_of(url)] + 1 if has_failed else 0

    def most(self, address: str) -> int:
        """The most concurrent calls to an address."""
        return 1 if self._failures[address] >= OPENS_AFTER else MOST_CALLS


class CallRoom:
    """The remaining capacity for calls, over all partitions of the process."""

    def __init__(self, under_way: Iterable[str], breakers: Breakers) -> None:
        self._calls = Counter(map(address_of, under_way))
        self._breakers = breakers

    def take(self, url: str) -> bool:
        """Takes a place for one more call; returns whether there was one."""
        address = address_of(url)
        is_full = self._calls.total() >= MOST_IN_ALL
        if is_full or self._calls[address] >= self._breakers.most(address):
            return False
        self._calls[address] += 1
        return True


def address_of(url: str) -> str:
    """The scheme, host and port of a URL, which several channels may share.

    >>> address_of("https://tablet.example:8443/alerts?a=b")
    'https://tablet.example:8443'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
