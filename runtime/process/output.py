"""Output of a command: one JSON object on stdout for a script, all else on stderr for a person."""

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
    """Print one JSON object on stdout."""
    print(json.dumps(value, ensure_ascii=False, default=str))


def print_note(text: str) -> None:
    """Print one line for the reader on stderr."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def show_progress(title: str, total: int) -> Iterator[Advance]:
    """A bar or lines; the function takes, from any thread, the number of steps just done."""
    # stdout is reserved for the command's answer.
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _print_progress(title, total)
        return
    description = TextColumn("{task.description}")
    columns = description, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(title, total=total)
        yield lambda steps: bar.update(task, advance=steps)


def _print_progress(title: str, total: int) -> Advance:
    done, last, lock = 0, time.monotonic(), threading.Lock()

    def advance(steps: int) -> None:
        # Several threads call this; without the lock two lines would be mixed.
        nonlocal done, last
        with lock:
            done += steps
            now = time.monotonic()
            if done >= total or now - last >= LINE_EVERY_SECONDS:
                last = now
                print_note(f"{title}: {done:,} of {total:,}")

    return advance
