"""Which messages are exact copies of one that this process has already written."""

MOST_REMEMBERED = 100_000


class Repeats:
    """The fingerprints of the latest records, at most `most`.

    What is remembered lies in the same or in an earlier transaction of this process; whoever gives
    up a transaction must forget.
    """

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._latest: dict[str, None] = {}

    def seen(self, fingerprint: str) -> bool:
        """Whether the fingerprint is among the latest; from now on it is the very latest.

        It covers the identity too.
        """
        known = fingerprint in self._latest
        if known:
            # Sent again and again it stays, however many others come between.
            del self._latest[fingerprint]
        elif len(self._latest) >= self._most:
            del self._latest[next(iter(self._latest))]
        self._latest[fingerprint] = None
        return known

    def forget(self) -> None:
        """Nothing is remembered: what was written may never be committed."""
        self._latest.clear()
