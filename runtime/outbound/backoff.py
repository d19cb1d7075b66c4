"""The delays after which a call that got no answer is retried."""

from hashlib import sha256

SECOND = 1_000
_MINUTE, _HOUR = 60 * SECOND, 3_600 * SECOND
# Milliseconds after each attempt; the last one repeats.
DELAYS = (
    *(5 * SECOND, 30 * SECOND, 2 * _MINUTE, 10 * _MINUTE),
    *(_HOUR, 3 * _HOUR, 6 * _HOUR),
)
JITTER = 0.2


def retry_delay(name: str, attempts: int) -> int:
    """Milliseconds until the next retry, after `attempts` (one or more) at a call of this name."""
    delay = DELAYS[min(attempts, len(DELAYS)) - 1]
    # By the name and not at random: a process that restores the state computes the same delay.
    digest = sha256(f"{name}|{attempts}".encode()).digest()
    share = int.from_bytes(digest[:4]) / 0xFFFFFFFF
    return int(delay * (1 - JITTER + 2 * JITTER * share))
