"""One look after the other: what is whole is sent and filed, and no file holds up another."""

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

# A file that was not taken is left alone for so long, doubling: others come first.
_FIRST_PAUSE, _LONGEST_PAUSE = 15.0, 600.0
# After so many in a row it is the gateway's fault.
_MOST_IN_A_ROW = 3
_LOOK_EVERY_SECONDS = 5.0


@dataclass
class DropRounds:
    """What goes from a folder to a gateway; files are kept for so many seconds afterwards."""

    folder: DropFolder
    sender: Sender
    kept_seconds: float
    counts: Counter[str] = field(default_factory=Counter)
    look: Look = field(default_factory=Look)
    # Files that wait in the folder after the last look.
    waiting: int = 0
    _pauses: dict[Path, tuple[float, float]] = field(default_factory=dict)
    _resume_at: float = 0.0
    _told: set[str] = field(default_factory=set)
    _tell: set[str] = field(default_factory=set)

    def once(self) -> None:
        """What lies there, and what was being written when it was looked at. Raises as run()."""
        self.run()
        if unsettled := self.look.unsettled:
            seconds = self.folder.settled_seconds
            note(f"{files_in_words(len(unsettled))} just written to: waiting {seconds:g} s")
            if not self.sender.stopped.wait(seconds):
                self.run()

    def watch(self) -> None:
        """One look after the other, until somebody stops it."""
        while not self.sender.stopped.is_set():
            try:
                self.run()
            except (OSError, TallyError) as error:
                # As when a network drive is away: who watches waits for it.
                self.say(f"looking again: {_shown(error)}")
            self.sender.stopped.wait(_LOOK_EVERY_SECONDS)

    def run(self) -> None:
        """One look. Raises DropUnusable, OSError where the folder is not what it was."""
        self._told, self._tell = self._tell, set()
        self.folder.prepare()
        self._clear()
        self.look = self.folder.look(time.time())
        for path, reason in self.look.passed.items():
            self.say(f"{_shown(path)}: not taken: {reason}")
        files = self.look.settled
        there = {one.relative for one in files}
        self._pauses = {path: one for path, one in self._pauses.items() if path in there}
        due = [one for one in files if self._is_due(one)]
        # Those that were not taken before come last: they may never be.
        due.sort(key=lambda one: one.relative in self._pauses)
        done = self._send_all(due)
        self.waiting = len(files) - done + len(self.look.unsettled)

    def summary(self) -> dict[str, Any]:
        """All looks in numbers; `waiting` and `passed` are of the last one."""
        names = "taken", "refused", "accepted", "rejected", "skipped", "cleared"
        counted = {name: self.counts[name] for name in names}
        return {**counted, "waiting": self.waiting, "passed": len(self.look.passed)}

    def say(self, text: str) -> None:
        """One line, unless it was said at the look before or at this one."""
        if text not in self._told | self._tell:
            note(text)
        self._tell.add(text)

    def _say_shown(self, text: str) -> None:
        self.say(_shown(text))

    def _clear(self) -> None:
        gone, kept = self.folder.clear(self.kept_seconds, time.time())
        self.counts["cleared"] += gone
        for text in kept:
            self.say(text)

    def _is_due(self, file: DroppedFile) -> bool:
        pause = self._pauses.get(file.relative)
        return pause is None or time.monotonic() >= pause[0]

    def _send_all(self, files: Sequence[DroppedFile]) -> int:
        """How many were filed."""
        if not files or time.monotonic() < self._resume_at:
            return 0
        title = f"bytes of {files_in_words(len(files))} done"
        filed = in_a_row = 0
        with progress(title, sum(one.size for one in files)) as advance:
            for file in files:
                if self.sender.stopped.is_set():
                    break
                try:
                    filed += self._hand_over(file, advance)
                    in_a_row = 0
                except NotTaken as error:
                    in_a_row += 1
                    if not self._is_of_all(error):
                        self._leave(file, str(error))
                    if self._is_of_all(error) or in_a_row == _MOST_IN_A_ROW:
                        left = files_in_words(len(files) - filed)
                        self.say(f"{left} not sent: {_shown(error)}")
                        break
        return filed

    def _is_of_all(self, error: NotTaken) -> bool:
        """Whether the other files would be told the same."""
        self._resume_at = time.monotonic() + error.wait_seconds
        return error.is_away or error.wait_seconds > 0 or self.sender.stopped.is_set()

    def _hand_over(self, file: DroppedFile, advance: Advance) -> bool:
        """Whether it was filed. Raises NotTaken: it stays."""
        sent = 0
        outcome = FileOutcome()
        try:
            for size in self._sent(Mailing(file), outcome):
                sent += size
                advance(size)
            self._file(file, outcome)
        except FileChanged as error:
            self.say(_shown(error))
            return False
        except OSError as error:
            # What was sent already counts once when it is sent again.
            self._leave(file, f"{error.strerror or error}; it is tried again")
            return False
        if sent < file.size:
            advance(file.size - sent)
        return True

    def _sent(self, mailing: Mailing, outcome: FileOutcome) -> Iterator[int]:
        """Bytes of each body that was answered; `outcome` gathers what was said of it."""
        if reason := mailing.refusal:
            outcome.refusal = {"detail": reason}
            return
        with mailing.file.opened() as content:
            # What cannot be sent today cannot be tomorrow: it would wait for ever.
            try:
                for part in mailing.parts(content):
                    if self.sender.stopped.is_set():
                        raise NotTaken("it was told to stop; they are sent next time")
                    mailing.file.check()
                    answer = self.sender.post(mailing, part.content, self._say_shown)
                    if not _took(answer, part.lines_before, outcome):
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
            note(f"{_shown(file.relative)}: {_in_words(outcome)}; see {_shown(beside)}")

    def _leave(self, file: DroppedFile, why: str) -> None:
        _, last = self._pauses.get(file.relative, (0.0, _FIRST_PAUSE / 2))
        pause = min(2 * last, _LONGEST_PAUSE)
        self._pauses[file.relative] = time.monotonic() + pause, pause
        self.say(f"{_shown(file.relative)}: it stays there: {_shown(why)}")


def files_in_words(count: int) -> str:
    """`1 file`, `2 files`."""
    return f"{count:,} file{'' if count == 1 else 's'}"


def _took(answer: httpx.Response, lines_before: int, outcome: FileOutcome) -> bool:
    """Whether the answer is one about lines; else it is noted as a refusal of the file."""
    told = read_answer(answer)
    if told is None:
        outcome.refusal = refusal_of(answer)
        return False
    outcome.add(told, lines_before)
    return True


def _in_words(outcome: FileOutcome) -> str:
    if outcome.refusal is not None:
        return f"refused: {_shown(outcome.refusal.get('detail', outcome.refusal))}"
    said = [f"{outcome.accepted:,} events taken"]
    if outcome.rejected_count:
        said.append(f"{outcome.rejected_count:,} rejected")
    said += [f"{count:,} skipped ({reason})" for reason, count in outcome.skipped.items()]
    return ", ".join(said)


def _shown(text: object) -> str:
    """Of names that others chose: what could move a terminal's cursor is left out."""
    return "".join(one if one.isprintable() else "�" for one in str(text))
