"""How far a replay has come: for the reader a bar or lines, for --resume a file."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

_LINE_EVERY_SECONDS = 5.0


@dataclass(frozen=True)
class ProgressRecord:
    """The number of acknowledged sendings of one replay, kept in a file named by its options."""

    file: Path

    @classmethod
    def of(cls, home: Path, options: str) -> "ProgressRecord":
        """The record of a replay with these options under TALLY_HOME."""
        return cls(home / "data" / "replay" / f"{blake2b(options.encode(), digest_size=8).hexdigest()}.json")

    def acknowledged(self) -> int:
        """Sendings acknowledged so far; 0 without a record."""
        return int(json.loads(self.file.read_text("utf-8"))["acknowledged"]) if self.file.is_file() else 0

    def save(self, acknowledged: int) -> None:
        """Replace the record in one step, so that a kill leaves the old one or the new one."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        beside = self.file.with_suffix(".new")
        beside.write_text(json.dumps({"acknowledged": acknowledged}), "utf-8")
        beside.replace(self.file)


@contextmanager
def shown_progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A function to call with the number of receipts done so far: a bar on a terminal, a line every 5 s elsewhere; on stderr."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(title, total)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, completed=done)


def _lines(title: str, total: int) -> Callable[[int], None]:
    last = time.monotonic()

    def show(done: int) -> None:
        nonlocal last
        if done >= total or time.monotonic() - last >= _LINE_EVERY_SECONDS:
            last = time.monotonic()
            print(f"{title}: {done:,} of {total:,}", file=sys.stderr, flush=True)

    return show
