"""How many calls may be under way at once: bounded for the process, for each address, and to one
for an address that does not answer."""

from collections import Counter
from collections.abc import Iterable
from urllib.parse import urlsplit

from tally.alerts.delivery.attempts import WebhookAnswer, meaning

# Calls under way at once to one address, and in the whole process.
MOST_CALLS, MOST_IN_ALL = 8, 64
# After so many failures in a row an address is called by one message at a time.
OPENS_AFTER = 5


class Breakers:
    """The circuit breakers of all addresses, each by how often its address failed in a row.

    An open one lets a single call pass at a time, and the first that succeeds closes it. It lives
    in memory alone: after a restart an address has OPENS_AFTER calls to show that it is well.
    """

    def __init__(self) -> None:
        self._failures: Counter[str] = Counter()

    def note(self, url: str, answer: WebhookAnswer) -> None:
        """Count what came of a call; a status that says something of the message is a success."""
        failed = meaning(answer) in ("blocked", "again", "in doubt")
        self._failures[address_of(url)] = self._failures[address_of(url)] + 1 if failed else 0

    def most(self, address: str) -> int:
        """How many calls of an address may be under way."""
        return 1 if self._failures[address] >= OPENS_AFTER else MOST_CALLS


class CallRoom:
    """What is left of the bounds while these addresses are being called, in all partitions."""

    def __init__(self, under_way: Iterable[str], breakers: Breakers) -> None:
        self._calls = Counter(map(address_of, under_way))
        self._breakers = breakers

    def take(self, url: str) -> bool:
        """Whether one more call may begin; it then counts."""
        address = address_of(url)
        is_full = self._calls.total() >= MOST_IN_ALL
        if is_full or self._calls[address] >= self._breakers.most(address):
            return False
        self._calls[address] += 1
        return True


def address_of(url: str) -> str:
    """Scheme, host and port of a URL, which calls of several channels may share.

    >>> address_of("https://tablet.example:8443/alerts?a=b")
    'https://tablet.example:8443'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
