"""Sends and files the complete files of a folder, look by look; no file holds up another."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from ingest.drop.bodies import Mailing
from ingest.drop.folder import DONE, REFUSED, DropFolder, DroppedFile, Look, beside_of
from ingest.drop.sender import FileOutcome, Sender, read_answer, refusal_of
from runtime.output import Advance, note, progress
from tally.errors import FileChanged, NotTaken, RejectedEvent, TallyError, TooMuch

# A file that was not taken waits so long before the next try, then twice as long: others go first.
_FIRST_PAUSE, _LONGEST_PAUSE = 15.0, 600.0
# After so many failures in a row the gateway is taken to be the cause.
_MOST_IN_A_ROW = 3
_LOOK_EVERY_SECONDS = 5.0


@dataclass
class DropRounds:
    """Sends files from a folder to a gateway, and keeps them for `kept_seconds` seconds after."""

    folder: DropFolder
    sender: Sender
    kept_seconds: float
    counts: Counter[str] = field(default_factory=Counter)
    look: Look = field(default_factory=Look)
    # Files that wait in the folder after the last look.
    waiting: int = 0
    _pauses: dict[Path, tuple[float, float]] = field(default_factory=dict)
    _resume_at: float = 0.0
    _said_before: set[str] = field(default_factory=set)
    _said_now: set[str] = field(default_factory=set)

    def once(self) -> None:
        """Send the files there, waiting once for those just written. Raises as run() does."""
        self.run()
        if unsettled := self.look.unsettled:
            seconds = self.folder.settled_seconds
            note(f"{files_in_words(len(unsettled))} just written to: waiting {seconds:g} s")
            if not self.sender.stopped.wait(seconds):
                self.run()

    def watch(self) -> None:
        """Look again and again until stopped."""
        while not self.sender.stopped.is_set():
            try:
                self.run()
            except (OSError, TallyError) as error:
                # For example, a network drive is away: with --watch it may come back.
                self.say(f"looking again: {_printable(error)}")
            self.sender.stopped.wait(_LOOK_EVERY_SECONDS)

    def run(self) -> None:
        """Look once and send what is due. Raises DropUnusable; OSError if the folder changed."""
        self._said_before, self._said_now = self._said_now, set()
        self.folder.prepare()
        self._clear()
        self.look = self.folder.look(time.time())
        for path, reason in self.look.passed.items():
            self.say(f"{_printable(path)}: not taken: {reason}")
        files = self.look.settled
        present = {file.relative for file in files}
        self._pauses = {path: file for path, file in self._pauses.items() if path in present}
        due = [file for file in files if self._is_due(file)]
        # Files that were refused before come last, because they may never be taken.
        due.sort(key=lambda file: file.relative in self._pauses)
        done = self._send_all(due)
        self.waiting = len(files) - done + len(self.look.unsettled)

    def summary(self) -> dict[str, Any]:
        """The counts of all looks; `waiting` and `passed` are those of the last look."""
        names = "taken", "refused", "accepted", "rejected", "skipped", "cleared"
        counted = {name: self.counts[name] for name in names}
        return {**counted, "waiting": self.waiting, "passed": len(self.look.passed)}

    def say(self, text: str) -> None:
        """Print a line, unless this look or the one before has printed it."""
        if text not in self._said_before | self._said_now:
            note(text)
        self._said_now.add(text)

    def _say_printable(self, text: str) -> None:
        self.say(_printable(text))

    def _clear(self) -> None:
        gone, problems = self.folder.clear(self.kept_seconds, time.time())
        self.counts["cleared"] += gone
        for text in problems:
            self.say(text)

    def _is_due(self, file: DroppedFile) -> bool:
        pause = self._pauses.get(file.relative)
        return pause is None or time.monotonic() >= pause[0]

    def _send_all(self, files: Sequence[DroppedFile]) -> int:
        """Send all files; returns how many were filed."""
        if not files or time.monotonic() < self._resume_at:
            return 0
        title = f"bytes of {files_in_words(len(files))} done"
        filed = in_a_row = 0
        with progress(title, sum(due_file.size for due_file in files)) as advance:
            for file in files:
                if self.sender.stopped.is_set():
                    break
                try:
                    filed += self._hand_over(file, advance)
                    in_a_row = 0
                except NotTaken as error:
                    in_a_row += 1
                    if not self._affects_all(error):
                        self._leave(file, str(error))
                    if self._affects_all(error) or in_a_row == _MOST_IN_A_ROW:
                        left = files_in_words(len(files) - filed)
                        self.say(f"{left} not sent: {_printable(error)}")
                        break
        return filed

    def _affects_all(self, error: NotTaken) -> bool:
        """Whether the gateway would answer the other files in the same way."""
        self._resume_at = time.monotonic() + error.wait_seconds
        return error.is_away or error.wait_seconds > 0 or self.sender.stopped.is_set()

    def _hand_over(self, file: DroppedFile, advance: Advance) -> bool:
        """Send and file one file; returns whether it was filed. Raises NotTaken if it stays."""
        sent = 0
        outcome = FileOutcome()
        try:
            for size in self._send_parts(Mailing(file), outcome):
                sent += size
                advance(size)
            self._file(file, outcome)
        except FileChanged as error:
            self.say(_printable(error))
            return False
        except OSError as error:
            # The part that was sent already is not counted twice when it is sent again.
            self._leave(file, f"{error.strerror or error}; it is tried again")
            return False
        if sent < file.size:
            advance(file.size - sent)
        return True

    def _send_parts(self, mailing: Mailing, outcome: FileOutcome) -> Iterator[int]:
        """Send each body and yield its size in bytes; `outcome` gathers the answers."""
        if reason := mailing.refusal:
            outcome.refusal = {"detail": reason}
            return
        with mailing.file.opened() as content:
            # A file that cannot be sent now never can be, and would wait for ever.
            try:
                for part in mailing.parts(content):
                    if self.sender.stopped.is_set():
                        raise NotTaken("it was told to stop; they are sent next time")
                    mailing.file.check()
                    answer = self.sender.post(mailing, part.content, self._say_printable)
                    if not _add_answer(answer, part.lines_before, outcome):
                        return
                    yield len(part.content)
            except (httpx.InvalidURL, ValueError, TooMuch, RejectedEvent) as error:
                outcome.refusal = {"detail": str(error)}

    def _file(self, file: DroppedFile, outcome: FileOutcome) -> None:
        where = REFUSED if outcome.is_refused or outcome.refusal else DONE
        filed = self.folder.file(file, where, outcome.told, time.time())
        self._pauses.pop(file.relative, None)
        self.counts["taken" if where == DONE else "refused"] += 1
        self.counts["accepted"] += outcome.accepted
        self.counts["rejected"] += outcome.rejected_count
        self.counts["skipped"] += outcome.skipped.total()
        if outcome.told is not None:
            beside = beside_of(filed, where).relative_to(self.folder.root)
            note(f"{_printable(file.relative)}: {_describe(outcome)}; see {_printable(beside)}")

    def _leave(self, file: DroppedFile, why: str) -> None:
        _, last = self._pauses.get(file.relative, (0.0, _FIRST_PAUSE / 2))
        pause = min(2 * last, _LONGEST_PAUSE)
        self._pauses[file.relative] = time.monotonic() + pause, pause
        self.say(f"{_printable(file.relative)}: it stays there: {_printable(why)}")


def files_in_words(count: int) -> str:
    """`1 file`, `2 files`."""
    return f"{count:,} file{'' if count == 1 else 's'}"


def _add_answer(answer: httpx.Response, lines_before: int, outcome: FileOutcome) -> bool:
    """Add an answer about lines to the outcome; False if it refuses the file as a whole."""
    lines = read_answer(answer)
    if lines is None:
        outcome.refusal = refusal_of(answer)
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
