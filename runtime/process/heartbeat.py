"""A heartbeat with an age, which a job writes from its own loop: is it idle, or has it stalled?

`python -m runtime.process.heartbeat FILE SECONDS` is the health check of a job without HTTP.
"""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import structlog

from runtime.process.files import write_atomically

log = structlog.get_logger()
_EVERY_SECONDS = 1.0


class Heartbeat:
    """A heartbeat file, written at most once a second; without a file beats are only counted.

    The loop that does the work writes it, never a thread beside it.
    """

    def __init__(self, file: Path | None) -> None:
        self.beats, self._file = 0, file
        self._written_at, self._is_missed = float("-inf"), False
        self._progress: object = None
        self._extra_fields: dict[str, float] = {}
        # CLOCK_MONOTONIC is shared by all processes of a machine, and no step of the wall clock
        # makes a healthy job look stalled.
        self._moved_at = time.monotonic()

    def record_restore(self, seconds: float) -> None:
        """Record how long the job took to restore its state; each later beat includes it."""
        self._extra_fields = {"restore_seconds": round(seconds, 3)}

    def beat(self, progress: object, is_behind: bool) -> None:
        """Record that the job is alive now.

        `progress` differs from that of the last beat when work was done since; `is_behind`: there
        is work to do.
        """
        self.beats += 1
        now = time.monotonic()
        # Idle time is not stalled time: the clock starts when an idle job gets work.
        if progress != self._progress or not is_behind:
            self._progress, self._moved_at = progress, now
        if self._file is None or now - self._written_at < _EVERY_SECONDS:
            return
        self._written_at = now
        # The file is replaced atomically: it may be read at any moment.
        content = {"at": now, "moved_at": self._moved_at, **self._extra_fields}
        was_missed, self._is_missed = self._is_missed, False
        try:
            write_atomically(self._file, json.dumps(content))
        # On a full disk the work goes on; the watcher sees that the beats have stopped.
        except OSError as error:
            self._is_missed = True
            if not was_missed:
                log.warning("no heartbeat", file=str(self._file), reason=error.strerror)


# For how many seconds, and the symptom.
Stall = tuple[float, str]


def find_stall(file: Path, seconds: float) -> Stall | None:
    """For how many seconds the job that writes the file has stalled, and the symptom.

    None while it works or is idle, and before its first beat, while it starts.
    """
    try:
        content = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return None
    now = time.monotonic()
    if (silent := now - content["at"]) > seconds:
        return silent, f"no heartbeat for {silent:.0f} s"
    if (stuck := now - content["moved_at"]) > seconds:
        return stuck, f"no progress for {stuck:.0f} s while records wait"
    return None


def stall_reason(file: Path, seconds: float) -> str | None:
    """Why the job that writes the file has stalled, None while it works or is idle."""
    found = find_stall(file, seconds)
    return found[1] if found else None


def read_restore_seconds(folder: Path | None, fresh_seconds: float) -> dict[str, float]:
    """The seconds that each service last took to restore its state, by service.

    Services without a state are absent. `folder` has heartbeats as SERVICE.heartbeat; one older
    than `fresh_seconds` is of a service that no longer works.
    """
    now = time.monotonic()
    found: dict[str, float] = {}
    for file in folder.glob("*.heartbeat") if folder else ():
        try:
            content = json.loads(file.read_text("utf-8"))
        except FileNotFoundError:
            continue
        if now - content["at"] <= fresh_seconds and "restore_seconds" in content:
            found[file.stem] = float(content["restore_seconds"])
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Check the file; exit code 0 for a fresh heartbeat, 1 with one line of reason otherwise.

    A job that has not written a heartbeat yet is not healthy.
    """
    file, seconds = sys.argv[1:] if argv is None else argv
    reason = stall_reason(Path(file), float(seconds)) if Path(file).exists() else "no heartbeat yet"
    if reason:
        print(reason)
    return 1 if reason else 0


if __name__ == "__main__":
    sys.exit(main())
