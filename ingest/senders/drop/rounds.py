"""Sends and files the complete files of a folder, look by look; no file holds up another."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from ingest.senders.drop.bodies import UploadRequest
from ingest.senders.drop.folder import (
    DONE,
    REFUSED,
    DropFolder,
    DroppedFile,
    FolderScan,
    answer_path,
)
from ingest.senders.drop.sender import FileOutcome, Sender, read_answer, read_refusal
from runtime.process.output import Advance, print_note, show_progress
from tally.errors import BodyTooLarge, FileChanged, GatewayUnavailable, RejectedEvent, TallyError

# A file that was not taken waits so long before the next try, then twice as long: others go first.
_FIRST_PAUSE, _LONGEST_PAUSE = 15.0, 600.0
# After so many failures in a row the gateway is taken to be the cause.
_MAX_IN_A_ROW = 3
_SCAN_EVERY_SECONDS = 5.0


@dataclass
class FolderUploader:
    """Sends files from a folder to a gateway, and keeps them `retention_seconds` seconds after."""

    folder: DropFolder
    sender: Sender
    retention_seconds: float
    counts: Counter[str] = field(default_factory=Counter)
    scan: FolderScan = field(default_factory=FolderScan)
    # Files that wait in the folder after the last look.
    waiting: int = 0
    _pauses: dict[Path, tuple[float, float]] = field(default_factory=dict)
    _resume_at: float = 0.0
    _printed_before: set[str] = field(default_factory=set)
    _printed_now: set[str] = field(default_factory=set)

    def run_once(self) -> None:
        """Send the files there, waiting once for those just written. Raises as run() does."""
        self.run()
        if unsettled := self.scan.unsettled:
            seconds = self.folder.settled_seconds
            print_note(f"{files_in_words(len(unsettled))} just written to: waiting {seconds:g} s")
            if not self.sender.stopped.wait(seconds):
                self.run()

    def watch(self) -> None:
        """Look again and again until stopped."""
        while not self.sender.stopped.is_set():
            try:
                self.run()
            except (OSError, TallyError) as error:
                # For example, a network drive is away: with --watch it may come back.
                self.print_once(f"looking again: {_printable(error)}")
            self.sender.stopped.wait(_SCAN_EVERY_SECONDS)

    def run(self) -> None:
        """Look once and send what is due. Raises DropUnusable; OSError if the folder changed."""
        self._printed_before, self._printed_now = self._printed_now, set()
        self.folder.prepare()
        self._delete_expired()
        self.scan = self.folder.scan(time.time())
        for path, reason in self.scan.ignored.items():
            self.print_once(f"{_printable(path)}: not taken: {reason}")
        files = self.scan.settled
        present = {file.relative for file in files}
        self._pauses = {path: file for path, file in self._pauses.items() if path in present}
        due = [file for file in files if self._is_due(file)]
        # Files that were refused before come last, because they may never be taken.
        due.sort(key=lambda file: file.relative in self._pauses)
        done = self._send_all(due)
        self.waiting = len(files) - done + len(self.scan.unsettled)

    def summary(self) -> dict[str, Any]:
        """The counts of all looks; `waiting` and `passed` are those of the last look."""
        names = "taken", "refused", "accepted", "rejected", "skipped", "cleared"
        counted = {name: self.counts[name] for name in names}
        return {**counted, "waiting": self.waiting, "passed": len(self.scan.ignored)}

    def print_once(self, text: str) -> None:
        """Print a line, unless this look or the one before has printed it."""
        if text not in self._printed_before | self._printed_now:
            print_note(text)
        self._printed_now.add(text)

    def _print_printable(self, text: str) -> None:
        self.print_once(_printable(text))

    def _delete_expired(self) -> None:
        gone, problems = self.folder.delete_expired(self.retention_seconds, time.time())
        self.counts["cleared"] += gone
        for text in problems:
            self.print_once(text)

    def _is_due(self, file: DroppedFile) -> bool:
        pause = self._pauses.get(file.relative)
        return pause is None or time.monotonic() >= pause[0]

    def _send_all(self, files: Sequence[DroppedFile]) -> int:
        """Send all files; returns how many were filed."""
        if not files or time.monotonic() < self._resume_at:
            return 0
        title = f"bytes of {files_in_words(len(files))} done"
        filed = in_a_row = 0
        with show_progress(title, sum(due_file.size for due_file in files)) as advance:
            for file in files:
                if self.sender.stopped.is_set():
                    break
                try:
                    filed += self._upload(file, advance)
                    in_a_row = 0
                except GatewayUnavailable as error:
                    in_a_row += 1
                    if not self._affects_all(error):
                        self._postpone(file, str(error))
                    if self._affects_all(error) or in_a_row == _MAX_IN_A_ROW:
                        left = files_in_words(len(files) - filed)
                        self.print_once(f"{left} not sent: {_printable(error)}")
                        break
        return filed

    def _affects_all(self, error: GatewayUnavailable) -> bool:
        """Whether the gateway would answer the other files in the same way."""
        self._resume_at = time.monotonic() + error.wait_seconds
        return error.is_away or error.wait_seconds > 0 or self.sender.stopped.is_set()

    def _upload(self, file: DroppedFile, advance: Advance) -> bool:
        """Send and file one file; returns whether it was filed.

        Raises GatewayUnavailable if it stays.
        """
        sent = 0
        outcome = FileOutcome()
        try:
            for size in self._send_parts(UploadRequest(file), outcome):
                sent += size
                advance(size)
            self._archive(file, outcome)
        except FileChanged as error:
            self.print_once(_printable(error))
            return False
        except OSError as error:
            # The part that was sent already is not counted twice when it is sent again.
            self._postpone(file, f"{error.strerror or error}; it is tried again")
            return False
        if sent < file.size:
            advance(file.size - sent)
        return True

    def _send_parts(self, mailing: UploadRequest, outcome: FileOutcome) -> Iterator[int]:
        """Send each body and yield its size in bytes; `outcome` gathers the answers."""
        if reason := mailing.refusal_reason:
            outcome.refusal = {"detail": reason}
            return
        with mailing.file.open_content() as content:
            # A file that cannot be sent now never can be, and would wait for ever.
            try:
                for part in mailing.chunks(content):
                    if self.sender.stopped.is_set():
                        raise GatewayUnavailable("it was stopped; they are sent next time")
                    mailing.file.check()
                    answer = self.sender.post(mailing, part.content, self._print_printable)
                    if not _add_answer(answer, part.lines_before, outcome):
                        return
                    yield len(part.content)
            except (httpx.InvalidURL, ValueError, BodyTooLarge, RejectedEvent) as error:
                outcome.refusal = {"detail": str(error)}

    def _archive(self, file: DroppedFile, outcome: FileOutcome) -> None:
        where = REFUSED if outcome.is_refused or outcome.refusal else DONE
        filed = self.folder.archive(file, where, outcome.report, time.time())
        self._pauses.pop(file.relative, None)
        self.counts["taken" if where == DONE else "refused"] += 1
        self.counts["accepted"] += outcome.accepted
        self.counts["rejected"] += outcome.rejected_count
        self.counts["skipped"] += outcome.skipped.total()
        if outcome.report is not None:
            beside = answer_path(filed, where).relative_to(self.folder.root)
            print_note(
                f"{_printable(file.relative)}: {_describe(outcome)}; see {_printable(beside)}"
            )

    def _postpone(self, file: DroppedFile, why: str) -> None:
        _, last = self._pauses.get(file.relative, (0.0, _FIRST_PAUSE / 2))
        pause = min(2 * last, _LONGEST_PAUSE)
        self._pauses[file.relative] = time.monotonic() + pause, pause
        self.print_once(f"{_printable(file.relative)}: it stays there: {_printable(why)}")


def files_in_words(count: int) -> str:
    """`1 file`, `2 files`."""
    return f"{count:,} file{'' if count == 1 else 's'}"


def _add_answer(answer: httpx.Response, lines_before: int, outcome: FileOutcome) -> bool:
    """Add an answer about lines to the outcome; False if it refuses the file as a whole."""
    lines = read_answer(answer)
    if lines is None:
        outcome.refusal = read_refusal(answer)
        return False
    outcome.add(lines, lines_before)
    return True


def _describe(outcome: FileOutcome) -> str:
    if outcome.refusal is not None:
        return f"refused: {_printable(outcome.refusal.get('detail', outcome.refusal))}"
    texts = [f"{outcome.accepted:,} events taken"]
    if outcome.rejected_count:
        texts.append(f"{outcome.rejected_count:,} rejected")
    texts += [f"{count:,} skipped ({reason})" for reason, count in outcome.skipped.items()]
    return ", ".join(texts)


def _printable(text: object) -> str:
    """The text with unprintable characters replaced: a file's name could move the cursor."""
    return "".join(character if character.isprintable() else "�" for character in str(text))
