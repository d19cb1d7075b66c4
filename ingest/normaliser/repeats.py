"""Detects messages that are exact copies of one that this process has already written."""

MAX_FINGERPRINTS = 100_000


class RecentFingerprints:
    """The fingerprints of the latest records, at most `most`.

    Each belongs to a record in the current or an earlier transaction of this process; call forget()
    when a transaction is aborted.
    """

    def __init__(self, most: int = MAX_FINGERPRINTS) -> None:
        self._most = most
        self._latest: dict[str, None] = {}

    def check_and_add(self, fingerprint: str) -> bool:
        """Whether the fingerprint is among the latest; it becomes the latest one.

        A fingerprint also covers the identity.
        """
        known = fingerprint in self._latest
        if known:
            # A message that is sent repeatedly stays known, however many others come between.
            del self._latest[fingerprint]
        elif len(self._latest) >= self._most:
            del self._latest[next(iter(self._latest))]
        self._latest[fingerprint] = None
        return known

    def forget(self) -> None:
        """Forget all fingerprints, because their records may never be committed."""
        self._latest.clear()
