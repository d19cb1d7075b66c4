"""`python -m ingest.senders.drop`, the process behind `tally drop`: files of a folder go to the
gateway."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Annotated, Any

import typer

from ingest.senders.drop.folder import DONE, DropFolder
from ingest.senders.drop.rounds import FolderUploader, files_in_words
from ingest.senders.gateway_client import connect_gateway
from runtime.process.files import lock_folder
from runtime.process.job import run_command, run_until_stopped
from runtime.process.output import print_json
from tally.config.settings import Settings
from tally.errors import AlreadyRunning

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command("drop")
def drop(
    folder: Annotated[
        Path,
        typer.Argument(exists=True, file_okay=False, help="where tills and counters put files"),
    ],
    watch: Annotated[
        bool, typer.Option("--watch", help="go on looking for new files until stopped")
    ] = False,
    settled_seconds: Annotated[
        float, typer.Option(min=0, help="a file is complete when it has not changed for so long")
    ] = 30.0,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Send the files of a folder to the gateway, and file them in `done` or `refused`.

    FOLDER/traffic/axis_csv/sensor=SERIAL/FILE goes to /v1/events/traffic/axis_csv?sensor=SERIAL.
    What was filed is deleted after TALLY_DROP_RETENTION_SECONDS. Ends with 1 when a file was
    refused, a line was rejected, or a file is left.

    \f
    Raises Exit with the code.
    """
    settings = Settings.load()
    drop_folder = DropFolder(folder.resolve(), settled_seconds)
    # With --watch the file is tried again later anyway.
    retry_seconds = 5.0 if watch else 60.0
    summary: dict[str, Any] = {}

    def work(stopped: Event) -> None:
        with (
            _lock(drop_folder),
            connect_gateway(settings.gateway, retry_seconds, stopped) as gateway,
        ):
            uploader = FolderUploader(drop_folder, gateway, settings.drop_retention_seconds)
            try:
                uploader.watch() if watch else uploader.run_once()
            finally:
                summary.update(uploader.summary())
                print_json(summary) if as_json else _print(summary, drop_folder.root)

    code = run_until_stopped("tally drop", work)
    is_left = any(summary.get(name) for name in ("refused", "rejected", "waiting"))
    raise typer.Exit(code or int(is_left and not watch))


@contextmanager
def _lock(folder: DropFolder) -> Iterator[None]:
    """Hold the folder: two processes would send all twice. Raises AlreadyRunning, DropUnusable."""
    folder.prepare()
    try:
        # The lock is in a folder that only its owner can write to: a user who may drop files could
        # otherwise replace it with a link.
        with lock_folder(folder.root / DONE / "drop"):
            yield
    except AlreadyRunning as error:
        raise AlreadyRunning(f"{folder.root}: another `tally drop` has it: {error}") from error


def _print(summary: Mapping[str, int], root: Path) -> None:
    print(
        f"{files_in_words(summary['taken'])} taken ({summary['accepted']:,} events,"
        f" {summary['rejected']:,} rejected, {summary['skipped']:,} skipped),"
        f" {summary['refused']:,} refused, {summary['waiting']:,} wait,"
        f" {summary['passed']:,} passed over, {summary['cleared']:,} of earlier ones deleted"
        f" ({root})"
    )


def main() -> int:
    """Exit code: 0 all taken, 1 failed or not all was taken, 2 wrong use, 78 unusable folder."""
    # Only the owner may read the filed files.
    os.umask(0o077)
    return run_command("tally", lambda: app(prog_name="tally drop"))


if __name__ == "__main__":
    sys.exit(main())
