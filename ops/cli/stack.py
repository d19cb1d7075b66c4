"""tally up, down, status, doctor: the local stack."""

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ops.cli.shared import JsonOption, print_answer
from runtime.process.output import print_json, print_note

if TYPE_CHECKING:
    from ops.local.processes.service import Site
    from ops.local.stack.control import ServiceStatus

NamedServices = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME]…", help="services; all if none is named")
]

# What a recovery works with; the other services must not run meanwhile.
BASE_SERVICES = ("kafka", "cassandra")
KeysOption = Annotated[
    Path | None, typer.Option(help="a folder apart, for the keys that sign webhooks and letters")
]
group = typer.Typer()


@group.command()
def setup() -> None:
    """Bring the JVM parts of Kafka, Cassandra and Spark into the cache; a clone has `make setup`.\f

    Raises Exit with 1 if they are not all there.
    """
    from ops.local import artifacts
    from ops.local.setup import jvm_classes

    if artifacts.main([]) or jvm_classes.main([]):
        raise typer.Exit(1)
    print_note("all JVM parts are there")


@group.command()
def up(names: NamedServices = None) -> None:
    """Start what does not run, with all it needs, and return when it is ready."""
    from ops.local.services import catalogue
    from ops.local.stack import control

    site = _site()
    services = catalogue.list_services(site)
    chosen = catalogue.with_needs(catalogue.select_services(names or (), services), services)
    try:
        control.up(site, chosen, print_note)
    finally:
        # This runs even if a service did not start: the watcher tries it again.
        control.watch(site)


@group.command()
def down(names: NamedServices = None) -> None:
    """Stop what `up` started; data stays."""
    from ops.local.services import catalogue
    from ops.local.stack import control

    site = _site()
    chosen = catalogue.select_services(names or (), catalogue.list_services(site))
    control.down(site, chosen, print_note)


@group.command()
def status(as_json: JsonOption = False) -> None:
    """State, process and address of each service; exit code 0 only if all run.\f

    Raises Exit with 1 if one does not.
    """
    from ops.local.services import catalogue
    from ops.local.stack import control
    from ops.local.stack.watcher import has_started_services, watcher_runs

    site = _site()
    states = control.status(site, catalogue.select_services((), catalogue.list_services(site)))
    services = {name: asdict(state) for name, state in states.items()}
    lines = []
    for name, state in states.items():
        process = f"{state.state:<9} {state.pid or '-':>8}"
        lines.append(f"{name:<11} {process}  {state.address or '-'}{_trouble(name, state)}")
    print_answer(as_json, {"services": services, "watcher": watcher_runs(site)}, lines)
    if has_started_services(site) and not watcher_runs(site):
        print_note("no watcher runs: what ends by itself stays down; `tally up` starts one")
    if any(state.state != "running" for state in states.values()):
        raise typer.Exit(1)


@group.command()
def recover() -> None:
    """After a loss: rebuild from the master dataset what Kafka and Cassandra have lost."""
    from ops.recovery import recover as recover_all

    site = _site()
    _start_base(site)
    recover_all(site.environment)


@group.command()
def backup(
    folder: Annotated[Path, typer.Argument(help="an own folder; one that is there is renewed")],
    keys: KeysOption = None,
    json: JsonOption = False,
) -> None:
    """Copy all that cannot be computed again, while everything runs."""
    from ops.backup.save import back_up, print_manifest
    from runtime.connect import cassandra_session

    settings = _site().settings
    with cassandra_session(settings) as session:
        manifest = back_up(settings, session, folder, keys)
    print_manifest(manifest, is_json=json)
    if keys is None:
        print_note("without the keys that sign webhooks and letters: --keys, into another folder")


@group.command()
def restore(
    folder: Annotated[Path, typer.Argument(help="of a backup")], keys: KeysOption = None
) -> None:
    """Bring a backup into an empty TALLY_HOME, and recover everything else from it."""
    from ops.backup.restore import restore_files, restore_records, restore_tails
    from ops.recovery import recover as recover_all
    from runtime.connect import cassandra_session

    site = _site()
    manifest = restore_files(site.settings, folder, keys)
    # The stores file is there only by now.
    site = _site()
    _start_base(site)
    with cassandra_session(site.settings) as session:
        restore_records(site.settings, session, folder, manifest)
    recover_all(site.environment)
    restore_tails(site.settings, folder, manifest)


@group.command()
def upgrade(
    apply: Annotated[
        bool, typer.Option("--apply/--check", help="upgrade, or only say what it would change")
    ] = False,
) -> None:
    """Bring the data of an earlier release to this one."""
    from ops.upgrade.run import find_changes
    from ops.upgrade.run import upgrade as upgrade_all

    site = _site()
    # Earlier tables are refused where a service starts that needs today's.
    _start_base(site, with_tables=False)
    changes = find_changes(site.settings)
    for change in changes:
        print(change)
    if not changes:
        print("nothing to upgrade")
    elif apply:
        upgrade_all(site.settings, site.environment)
    else:
        print_note("`tally backup` first, then `tally upgrade --apply`")


def _start_base(site: "Site", *, with_tables: bool = True) -> None:
    """Stop everything but Kafka and Cassandra, which run afterwards."""
    from ops.local.services import catalogue
    from ops.local.stack import control

    services = catalogue.list_services(site)
    base = catalogue.with_needs(catalogue.select_services(BASE_SERVICES, services), services)
    control.down(site, catalogue.select_services((), services), print_note)
    if not with_tables:
        base = [replace(service, once_ready=None) for service in base]
    control.up(site, base, print_note)


@group.command()
def doctor(as_json: JsonOption = False) -> None:
    """Look at the machine and the stack; each line says ok or failed, and the fix.

    Exit code 1 if one failed.\f
    Raises Exit with that code.
    """
    from ops.local.stack.doctor import checks

    found = {}
    for name, check in checks(_site()):
        found[name] = check
        if not as_json:
            word, cure = ("ok", "") if check.ok else ("failed", f"; {check.fix}")
            print(f"{word:<7} {name:<21} {check.detail}{cure}", flush=True)
    ok = all(check.ok for check in found.values())
    if as_json:
        shown = {name: asdict(check) for name, check in found.items()}
        print_json({"ok": ok, "checks": shown})
    if not ok:
        raise typer.Exit(1)


def _trouble(name: str, state: "ServiceStatus") -> str:
    """A second line for a service that does not work: why, since when, and what comes next."""
    if not state.reason:
        return ""
    since = f"since {state.since}: " if state.since else ""
    comes = ""
    if state.state == "failing":
        again = f"not tried again before `tally up {name}`"
        comes = f"; next try at {state.next_try}" if state.next_try else f"; {again}"
    return f"\n{'':<11} {since}{state.reason}{comes}"


def _site() -> "Site":
    from ops.local.processes.addresses import settings_with_addresses
    from ops.local.processes.service import Site

    return Site.from_settings(settings_with_addresses(os.environ), os.environ)
