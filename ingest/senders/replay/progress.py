"""Stores how far a replay has come in a file, for --resume."""

import json
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from runtime.process.files import write_atomically


@dataclass(frozen=True)
class ProgressRecord:
    """The number of acknowledged messages of one replay, kept in a file named by its options."""

    file: Path

    @classmethod
    def for_options(cls, home: Path, options: str) -> "ProgressRecord":
        """The record of a replay with these options under TALLY_HOME."""
        name = blake2b(options.encode(), digest_size=8).hexdigest()
        return cls(home / "data" / "replay" / f"{name}.json")

    def load(self) -> int:
        """Messages acknowledged so far; 0 without a record."""
        if not self.file.is_file():
            return 0
        return int(json.loads(self.file.read_text("utf-8"))["acknowledged"])

    def save(self, acknowledged: int) -> None:
        """Replace the record in one step, so that a kill leaves the old one or the new one."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.file, json.dumps({"acknowledged": acknowledged}))
