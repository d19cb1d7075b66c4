"""Limits how much work a body may cost, by counting the work while it is done.

The size of a body bounds neither the size of its messages nor how often its parts are read: for
example, a document's head is repeated in the message of each of its lines.
"""

from collections import Counter

from tally.errors import BodyTooLarge

# The bytes of messages that a body may become, in addition to twice its own bytes.
FREE_BYTES = 2**20
# Events of a vendor's body; a vendor cannot send fewer at once: a mall's minute has 13,500.
MAX_EVENTS = 50_000
# Steps are JSON values, XML tags, and other parts that are read. No honest body of 5 MiB has so
# many; as decimals they take 50 MB.
MAX_STEPS = 480_000
# Dead letters of one body; further ones are only counted by reason, in one additional letter.
MAX_LETTERS = 100


class WorkBudget:
    """What one body has cost so far: bytes made, events, dead letters and steps.

    Each count raises BodyTooLarge beyond its bound; then nothing of the body is stored.
    """

    def __init__(self, taken_bytes: int) -> None:
        self.most_bytes = 2 * taken_bytes + FREE_BYTES
        self.message_bytes = self.events = self.steps = self.letters = 0
        self.omitted_letters: Counter[str] = Counter()

    def count_event(self, size: int) -> None:
        """Count one more event, whose message has `size` bytes. Raises BodyTooLarge."""
        self.events += 1
        self.message_bytes += size
        self.check_events(self.events)
        self.check_bytes(self.message_bytes)

    def check_events(self, count: int) -> None:
        """Raise BodyTooLarge for more events than a body may have."""
        if count > MAX_EVENTS:
            raise BodyTooLarge(
                f"the body has more than {MAX_EVENTS:,} events; send fewer of them at once"
            )

    def check_bytes(self, size: int) -> None:
        """Raise BodyTooLarge for more bytes than may be made of the body."""
        if size > self.most_bytes:
            raise BodyTooLarge(
                f"the body would become more than {self.most_bytes:,} bytes of messages (twice its"
                f" own bytes and {FREE_BYTES:,}); send fewer events at once, with shorter names"
            )

    def count_steps(self, count: int = 1) -> None:
        """Count so many more reads of a part of the body. Raises BodyTooLarge."""
        self.steps += count
        if self.steps > MAX_STEPS:
            raise BodyTooLarge(
                f"the body takes more than {MAX_STEPS:,} steps to be read (values, tags, lines);"
                " send fewer events at once"
            )

    def admit_letter(self, reason: str, size: int, most_size: int) -> bool:
        """Whether a refused event is stored as a dead letter; if not, it is counted here."""
        is_kept = self.letters < MAX_LETTERS and size <= most_size
        if is_kept:
            self.letters += 1
        else:
            self.omitted_letters[reason] += 1
        return is_kept
