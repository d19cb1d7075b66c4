"""A sign of life with an age, which a job writes from its own loop.

Whoever watches tells from it an idle job from a stalled one. `python -m runtime.heartbeat FILE
SECONDS` is the health check of a job without HTTP.
"""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import structlog

from runtime.whole_file import keep_whole

log = structlog.get_logger()
_EVERY_SECONDS = 1.0


class Heartbeat:
    """Written at most once a second; without a file only counted.

    By the loop that does the work and never by a thread beside it.
    """

    def __init__(self, file: Path | None) -> None:
        self.beats = 0
        self._file = file
        self._written = float("-inf")
        self._is_missed = False
        self._progress: object = None
        self._told: dict[str, float] = {}
        # CLOCK_MONOTONIC is one for all processes of a machine, and no step of the wall clock makes
        # a healthy job look stalled.
        self._moved_at = time.monotonic()

    def restored(self, seconds: float) -> None:
        """The job has restored its state, which took so long: told with each beat from now on."""
        self._told = {"restore_seconds": round(seconds, 3)}

    def beat(self, progress: object, is_behind: bool) -> None:
        """Alive now.

        `progress` is unequal to the one before when work was done since; `is_behind`: there is work
        to do.
        """
        self.beats += 1
        now = time.monotonic()
        # Idle time is no standstill: an idle job that gets work has its time from then on.
        if progress != self._progress or not is_behind:
            self._progress, self._moved_at = progress, now
        if self._file is None or now - self._written < _EVERY_SECONDS:
            return
        self._written = now
        # Whole or the one before: somebody may read it at any moment.
        kept = {"at": now, "moved_at": self._moved_at, **self._told}
        try:
            keep_whole(self._file, json.dumps(kept))
        # On a full disk the work goes on; who watches sees that the beats have stopped.
        except OSError as error:
            if not self._is_missed:
                log.warning("no heartbeat", file=str(self._file), reason=error.strerror)
            self._is_missed = True
        else:
            self._is_missed = False


def stall(
    file: Path,
    seconds: float,
    now: float | None = None,
) -> tuple[float, str] | None:
    """For how many seconds the job that writes the file has done nothing, and how that shows.

    None while it works or is idle. `now` is of time.monotonic(). A job that has not written yet is
    starting: None.
    """
    try:
        kept = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return None
    now = time.monotonic() if now is None else now
    if (silent := now - kept["at"]) > seconds:
        return silent, f"no heartbeat for {silent:.0f} s"
    if (stuck := now - kept["moved_at"]) > seconds:
        return stuck, f"no progress for {stuck:.0f} s while records wait"
    return None


def stalled(file: Path, seconds: float, now: float | None = None) -> str | None:
    """Why the job that writes the file has stalled, None while it works or is idle."""
    found = stall(file, seconds, now)
    return found[1] if found else None


def restore_seconds(
    folder: Path | None, fresh_seconds: float, now: float | None = None
) -> dict[str, float]:
    """By service the seconds in which it restored its state last, of those that have one.

    `folder` has heartbeats as SERVICE.heartbeat; what is older than `fresh_seconds` is of a service
    that works no more. `now` is of time.monotonic().
    """
    now = time.monotonic() if now is None else now
    found: dict[str, float] = {}
    for file in folder.glob("*.heartbeat") if folder else ():
        try:
            kept = json.loads(file.read_text("utf-8"))
        except FileNotFoundError:
            continue
        if now - kept["at"] <= fresh_seconds and "restore_seconds" in kept:
            found[file.stem] = float(kept["restore_seconds"])
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """0 when the file has a fresh sign of life, 1 with one line when not.

    A job that has not begun to beat is not healthy.
    """
    file, seconds = list(sys.argv[1:] if argv is None else argv)
    reason = stalled(Path(file), float(seconds)) if Path(file).exists() else "no heartbeat yet"
    if reason:
        print(reason)
    return 1 if reason else 0


if __name__ == "__main__":
    sys.exit(main())
