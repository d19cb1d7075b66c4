"""What a person at a terminal and a script are told.

One JSON object on stdout, all else on stderr; a bar on a terminal, else lines.
"""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

LINE_EVERY_SECONDS = 5.0

Advance = Callable[[int], None]


def print_json(value: Any) -> None:
    """One JSON object on stdout."""
    print(json.dumps(value, ensure_ascii=False, default=str))


def note(text: str) -> None:
    """One line for the reader, on stderr."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def progress(title: str, total: int) -> Iterator[Advance]:
    """A function to call, from any thread, with the number of steps just done.

    A bar on a terminal, a line every 5 s elsewhere.
    """
    # stdout belongs to the answer of the verb.
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _plain_lines(title, total)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(title, total=total)
        yield lambda steps: bar.update(task, advance=steps)


def _plain_lines(title: str, total: int) -> Advance:
    done, last, lock = 0, time.monotonic(), threading.Lock()

    def advance(steps: int) -> None:
        # Called from several threads; two lines at once would be written into each other.
        nonlocal done, last
        with lock:
            done += steps
            now = time.monotonic()
            if done >= total or now - last >= LINE_EVERY_SECONDS:
                last = now
                note(f"{title}: {done:,} of {total:,}")

    return advance
