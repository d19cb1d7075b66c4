"""`tally demo`: the whole loop on one year of real receipts."""

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runtime.process.output import print_note
from tally.config.settings import STORES_FILE, Settings
from tally.errors import TallyError

if TYPE_CHECKING:
    from ops.local.demo.run import Demo

HOME = Path(".tally") / "demo"
DEFAULTS = {
    # The year takes two minutes: small micro-batches let it be watched, and let the master be asked
    # soon after the last receipt.
    "TALLY_MICRO_BATCH_RECORDS": "2500",
    "TALLY_INGEST_TRIGGER_SECONDS": "10",
    # The data set does not say where its stores are; their opening hours are those of the eastern
    # United States, and by any other clock people would shop at three in the morning.
    "TALLY_DEFAULT_TIMEZONE": "America/New_York",
}
# How long the stack may take to stop in order after an interrupt; then the rest is ended.
STOP_SECONDS = 6.0

group = typer.Typer()


@group.command()
def demo(
    once: Annotated[
        bool,
        typer.Option("--once", help="stop everything at the end; the default without a terminal"),
    ] = False,
    speed: Annotated[
        float,
        typer.Option(help="replay so many times faster than real time; 0 is as fast as it goes"),
    ] = 400_000,
    alerts: Annotated[
        bool,
        typer.Option("--alerts", help="with --once: wait for the alerts too, up to 50 minutes"),
    ] = False,
) -> None:
    """Replay a year of real receipts through the whole system, rebuild, audit, serve one of now.

    In a fresh folder, at the end with a simulated store of now beside them, and, where it stays,
    an alert that a rebuild confirms and one that it takes back. Exits with the audit's code, and
    with 1 when what is of now is not served within a minute, or its alert not published.\f
    Raises Exit with that code.
    """
    from ops.local.demo.alerts import how_to_see_alerts
    from ops.local.demo.run import Demo
    from ops.local.demo.twin import write_stores
    from ops.local.process_tree import fork_supervised
    from ops.local.services.catalogue import NEW_DAGS_ARE_PAUSED
    from runtime.spark.configuration import SHORT_RUN_JAVA

    ended = fork_supervised(STOP_SECONDS)
    if ended is not None:
        raise typer.Exit(ended)
    once = once or os.environ.get("DEMO") == "once" or not sys.stdout.isatty()
    home = Path(os.environ.get("TALLY_HOME", HOME)).absolute()
    # The demo shows the speed layer's answers first, so no hourly rebuild may run before that.
    defaults = {"TALLY_SPARK_JAVA_OPTIONS": SHORT_RUN_JAVA, **DEFAULTS}
    environment = {**defaults, **os.environ, "TALLY_HOME": str(home), NEW_DAGS_ARE_PAUSED: "True"}
    running = Demo(Settings.load(environment), environment, print_note)
    if home.exists():
        print_note(f"demo: {home} holds an earlier demo; stopping it and starting afresh")
        running.stop()
        shutil.rmtree(home)
    # A user's own stores file is used as it is, for the twin store too.
    if not os.environ.get("TALLY_STORES_FILE"):
        write_stores(home / STORES_FILE)
    code = 1
    try:
        result = running.run(speed)
        code = result.audit_code
        if not once:
            _print_addresses(home, result.twin_page)
        if alerts or not once:
            # This comes last, because it waits for a quarter hour to end.
            shown = _alerts_code(running)
            code = code or shown
        else:
            print_note(f"\n{how_to_see_alerts()}")
        if not once:
            running.watch_twin()
            signal.pause()
    except KeyboardInterrupt:
        print_note("demo: interrupted")
    finally:
        running.stop()
    raise typer.Exit(code)


def _alerts_code(running: "Demo") -> int:
    """0 once both alerts are sent and settled; else 1, and the stack runs on for inspection."""
    import httpx

    try:
        running.show_alerts()
    except (TallyError, httpx.HTTPError) as error:
        print_note(str(error))
        return 1
    return 0


def _print_addresses(home: Path, twin_page: str) -> None:
    api = Settings.load({"TALLY_HOME": str(home)}).api
    print_note(
        f"\nThe dashboard is at http://{api}/ and the API at http://{api}/v1/metrics."
        f" In another terminal: export TALLY_HOME={home}"
    )
    print_note(f"A simulated store of now, with people counters and WiFi, is at {twin_page}")
    print_note(
        "What is of now is none of the year's:"
        " a further audit is `tally audit --days 2017-01-01..2018-01-01`. Ctrl-C stops everything."
    )
