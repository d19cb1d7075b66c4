"""Sends and files the complete files of a folder, look by look; no file holds up another."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ingest.senders.drop.folder import DONE, REFUSED, DropFolder, DroppedFile, FolderScan
from ingest.senders.drop.uploads import send_file
from ingest.senders.gateway_client import GatewayClient
from runtime.process.output import Advance, print_note, show_progress
from tally.errors import FileChanged, GatewayUnavailable, TallyError

# A file that was not taken waits so long before the next try.
_PAUSE_SECONDS = 60.0
# After so many failures in a row the gateway is taken to be the cause.
_MAX_IN_A_ROW = 3
_SCAN_EVERY_SECONDS = 5.0


@dataclass
class FolderUploader:
    """Sends files from a folder to a gateway, and keeps them `retention_seconds` seconds after."""

    folder: DropFolder
    gateway: GatewayClient
    retention_seconds: float
    counts: Counter[str] = field(default_factory=Counter)
    scan: FolderScan = field(default_factory=FolderScan)
    # Files that wait in the folder after the last look.
    waiting: int = 0
    # By file that was not taken, and for all files: not before this instant of the monotonic clock.
    _resume_file_at: dict[Path, float] = field(default_factory=dict)
    _resume_at: float = 0.0
    _printed_before: set[str] = field(default_factory=set)
    _printed_now: set[str] = field(default_factory=set)

    def run_once(self) -> None:
        """Send the files there, waiting once for those just written. Raises as run() does."""
        self.run()
        if unsettled := self.scan.unsettled:
            seconds = self.folder.settled_seconds
            print_note(f"{files_in_words(len(unsettled))} just written to: waiting {seconds:g} s")
            if not self.gateway.stopped.wait(seconds):
                self.run()

    def watch(self) -> None:
        """Look again and again until stopped."""
        while not self.gateway.stopped.is_set():
            try:
                self.run()
            except (OSError, TallyError) as error:
                # For example, a network drive is away: with --watch it may come back.
                self.print_once(f"looking again: {error}")
            self.gateway.stopped.wait(_SCAN_EVERY_SECONDS)

    def run(self) -> None:
        """Look once and send what is due. Raises DropUnusable; OSError if the folder changed."""
        self._printed_before, self._printed_now = self._printed_now, set()
        self.folder.prepare()
        gone, problems = self.folder.delete_expired(self.retention_seconds, time.time())
        self.counts["cleared"] += gone
        self.scan = self.folder.scan(time.time())
        ignored = (f"{path}: not taken: {why}" for path, why in self.scan.ignored.items())
        for text in (*problems, *ignored):
            self.print_once(text)
        files = self.scan.settled
        resume_at = {file.relative: self._resume_file_at.get(file.relative, 0.0) for file in files}
        due = [file for file in files if resume_at[file.relative] <= time.monotonic()]
        # Files that were not taken before come last, because they may never be.
        due.sort(key=lambda file: resume_at[file.relative] > 0.0)
        self._resume_file_at = resume_at
        filed = self._send_all(due)
        self.waiting = len(files) - filed + len(self.scan.unsettled)

    def summary(self) -> dict[str, Any]:
        """The counts of all looks; `waiting` and `passed` are those of the last look."""
        names = "taken", "refused", "accepted", "rejected", "skipped", "cleared"
        counted = {name: self.counts[name] for name in names}
        return {**counted, "waiting": self.waiting, "passed": len(self.scan.ignored)}

    def print_once(self, text: str) -> None:
        """Print a line, unless this look or the one before has printed it."""
        if text not in self._printed_before | self._printed_now:
            print_note(_printable(text))
        self._printed_now.add(text)

    def _send_all(self, files: Sequence[DroppedFile]) -> int:
        """Send all files, as long as the gateway takes some; returns how many were filed."""
        if not files or time.monotonic() < self._resume_at:
            return 0
        title = f"bytes of {files_in_words(len(files))} done"
        filed = in_a_row = 0
        with show_progress(title, sum(due.status.st_size for due in files)) as advance:
            for file in files:
                if self.gateway.stopped.is_set():
                    break
                try:
                    filed += self._upload(file, advance)
                    in_a_row = 0
                except GatewayUnavailable as error:
                    in_a_row += 1
                    self._resume_at = time.monotonic() + error.wait_seconds
                    is_stopped = self.gateway.stopped.is_set()
                    # The gateway would answer the other files in the same way.
                    affects_all = error.is_away or error.wait_seconds > 0 or is_stopped
                    if not affects_all:
                        self._postpone(file, str(error))
                    if affects_all or in_a_row == _MAX_IN_A_ROW:
                        left = files_in_words(len(files) - filed)
                        self.print_once(f"{left} not sent: {error}")
                        break
        return filed

    def _upload(self, file: DroppedFile, advance: Advance) -> bool:
        """Send and file one file; returns whether it was filed. Raises GatewayUnavailable."""
        try:
            outcome = send_file(file, self.gateway, self.print_once, advance)
            where = REFUSED if outcome.is_refused else DONE
            beside = self.folder.archive(file, where, outcome.report)
        except FileChanged as error:
            self.print_once(str(error))
            return False
        except OSError as error:
            self._postpone(file, f"{error.strerror or error}; it is tried again")
            return False
        self.counts["refused" if outcome.is_refused else "taken"] += 1
        self.counts["accepted"] += outcome.accepted
        self.counts["rejected"] += outcome.rejected_count
        self.counts["skipped"] += outcome.skipped.total()
        if outcome.report is not None:
            print_note(_printable(f"{file.relative}: {outcome.description}; see {beside}"))
        return True

    def _postpone(self, file: DroppedFile, why: str) -> None:
        self._resume_file_at[file.relative] = time.monotonic() + _PAUSE_SECONDS
        self.print_once(f"{file.relative}: it stays there: {why}")


def files_in_words(count: int) -> str:
    """`1 file`, `2 files`."""
    return f"{count:,} file{'' if count == 1 else 's'}"


def _printable(text: str) -> str:
    """The text with unprintable characters replaced: a file's name could move the cursor."""
    return "".join(character if character.isprintable() else "�" for character in text)
