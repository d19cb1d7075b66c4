"""How much work a body may cost: counted while it is done, so that a bound is met before the end.

The size of a body bounds neither what is made of it nor how often it is looked at: a document's
head stands in the message of each of its lines.
"""

from collections import Counter

from tally.errors import TooMuch

# What may be made of a body besides twice its own bytes.
FREE_BYTES = 2**20
# Of a vendor's body, which cannot send less at once: a mall's minute are 13,500.
MOST_EVENTS = 50_000
# Values of JSON, tags of XML, and whatever else is looked at. Of no honest body of 5 MiB are there
# so many; as decimals they take 50 MB.
MOST_STEPS = 480_000
# Dead letters of one body; those beyond are counted by reason, in one letter more.
MOST_LETTERS = 100


class WorkBudget:
    """What one body has cost so far: bytes made, events, dead letters and steps.

    Each count raises TooMuch beyond its bound: then nothing of the body is stored.
    """

    def __init__(self, taken_bytes: int) -> None:
        self.most_bytes = 2 * taken_bytes + FREE_BYTES
        self.made_bytes = self.events = self.steps = self.letters = 0
        self.left_out: Counter[str] = Counter()

    def count_event(self, size: int) -> None:
        """One more event, of whose message so many bytes were made. Raises TooMuch."""
        self.events += 1
        self.made_bytes += size
        self.check_events(self.events)
        self.check_bytes(self.made_bytes)

    def check_events(self, count: int) -> None:
        """Raise TooMuch for more events than a body may have."""
        if count > MOST_EVENTS:
            raise TooMuch(
                f"the body has more than {MOST_EVENTS:,} events; send fewer of them at once"
            )

    def check_bytes(self, size: int) -> None:
        """Raise TooMuch for more bytes than may be made of the body."""
        if size > self.most_bytes:
            raise TooMuch(
                f"the body would become more than {self.most_bytes:,} bytes of messages (twice its"
                f" own bytes and {FREE_BYTES:,}); send fewer events at once, with shorter names"
            )

    def count_steps(self, count: int = 1) -> None:
        """So many more parts of the body, looked at once or once more. Raises TooMuch."""
        self.steps += count
        if self.steps > MOST_STEPS:
            raise TooMuch(
                f"the body takes more than {MOST_STEPS:,} steps to be read (values, tags, lines);"
                " send fewer events at once"
            )

    def keep_letter(self, reason: str, size: int, most_size: int) -> bool:
        """Whether an event that is refused is stored as a dead letter; else it is counted."""
        is_kept = self.letters < MOST_LETTERS and size <= most_size
        if is_kept:
            self.letters += 1
        else:
            self.left_out[reason] += 1
        return is_kept
