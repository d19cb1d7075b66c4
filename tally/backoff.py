"""After how long a call that got no answer is made again."""

from hashlib import sha256

SECOND = 1_000
_MINUTE, _HOUR = 60 * SECOND, 3_600 * SECOND
# Milliseconds after each attempt; the last one again and again.
DELAYS = (
    *(5 * SECOND, 30 * SECOND, 2 * _MINUTE, 10 * _MINUTE),
    *(_HOUR, 3 * _HOUR, 6 * _HOUR),
)
SPREAD = 0.2


def spread_delay(name: str, attempts: int) -> int:
    """Milliseconds after so many attempts, one or more, at a call of this name."""
    delay = DELAYS[min(attempts, len(DELAYS)) - 1]
    # By the name and not by dice: what is stored alone says when, to whoever restores it.
    digest = sha256(f"{name}|{attempts}".encode()).digest()
    share = int.from_bytes(digest[:4]) / 0xFFFFFFFF
    return int(delay * (1 - SPREAD + 2 * SPREAD * share))
