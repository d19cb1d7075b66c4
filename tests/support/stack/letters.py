"""Dead letters that a test tells, read as those of the topic are."""

from collections.abc import Sequence

from runtime.records.dead_letter import DeadLetter
from serving.storage.dead_letters import LetterReader
from tally.errors import StackError


class MemoryLetters(LetterReader):
    """A reader over these; None: nobody answers."""

    def __init__(self, letters: Sequence[DeadLetter] | None = ()) -> None:
        self.letters = letters

    async def newest(self) -> list[DeadLetter]:
        if self.letters is None:
            raise StackError("dead letters cannot be read: planted")
        return [*self.letters]


def letter(
    store: str | None, number: int, reason: str = "total_mismatch", **more: str
) -> DeadLetter:
    """A dead letter of the so many-th record of a partition."""
    return DeadLetter(
        id=f"posTransactionTopic:0:{number}",
        reason=reason,
        field=more.get("field", "/net_total"),
        message=more.get("message", "/net_total: is 1299 minor units, and the lines come to 1399"),
        attempts=1,
        first_seen="2026-11-20T09:00:00.000Z",
        at=more.get("at", f"2026-11-20T10:{number % 60:02}:00.000Z"),
        sha256="0" * 64,
        key=store,
        value="{}",
    )
