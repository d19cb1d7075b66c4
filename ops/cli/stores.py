"""`tally stores`: the registry of stores, shown, and replaced by a file as a whole."""

from dataclasses import asdict
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ops.cli.shared import NOTHING, JsonOption, build_table, print_answer, print_table, value_text
from runtime.process.output import print_json, print_note
from tally.config.settings import Settings
from tally.errors import BadSettings

if TYPE_CHECKING:
    from ops.stores import RegistryChange
    from runtime.registry.stores import StoreEntry

# The services that read the registry, only at their start: all answers of a process use one
# registry.
READERS = "gateway normaliser speed api evaluator dispatcher"

group = typer.Typer(
    name="stores", help="The registry of stores: show, import.", no_args_is_help=True
)


@group.command("import")
def import_stores(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="a stores file")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="show it, and write nothing")] = False,
    json: JsonOption = False,
) -> None:
    """Make FILE the registry, after all of it has been checked, and show what that changes.

    The registry is the file of TALLY_STORES_FILE, else stores.yaml in TALLY_HOME.\f
    Raises BadSettings for a file that does not fit, TallyError where none can be written.
    """
    from ops.local.machine import make_private
    from ops.stores import (
        check_visit_revisions,
        find_changed_spans,
        registry_change,
        replace_registry,
    )
    from runtime.registry.stores import parse_stores

    settings = Settings.load()
    registry, content = settings.registry, file.read_bytes()
    after = parse_stores(content, file, "stores")
    if not after:
        raise BadSettings(f"stores: {file} names no store, and every one there would be removed")
    before, today = _current_stores(registry), datetime.now(UTC).date()
    check_visit_revisions(before, after, today)
    change, moved = registry_change(before, after, today), find_changed_spans(before, after, today)
    warnings = change.warnings
    if not dry_run:
        # An existing home folder is left as it is: on a server others may share it.
        if registry.parent == settings.home and not settings.home.exists():
            make_private(settings.home)
        replace_registry(registry, content)
    if json:
        written = {"file": file, "registry": registry, "written": not dry_run, "stores": len(after)}
        stores = {"added": change.added, "removed": change.removed}
        changed = [
            # `from_day` gets the name that it has in tables.
            {"from" if name == "from_day" else name: value for name, value in asdict(field).items()}
            for field in change.changed
        ]
        spans = [*map(asdict, moved)]
        print_json({**written, **stores, "changed": changed, "moved": spans, "warnings": warnings})
    else:
        _print_change(change, len(after))
    for span in moved:
        begins = f"from {span.first}" if span.first else "from the first day on"
        hint = "; they are rebuilt by the next rebuild" if span.field == "visits" else ""
        what = f"store {span.store}: {span.field}: answers of closed days change"
        print_note(f"{what}, {begins} until {span.last}{hint}")
    for warning in warnings:
        print_note(f"{warning}; harmless only if nothing of the store has been taken yet")
    print_note(_next_step(registry, dry_run))


@group.command()
def show(
    store: Annotated[
        str, typer.Argument(metavar="STORE", help="its id; every store if none is named")
    ] = "",
    on: Annotated[
        str, typer.Option(metavar="DATE", help="as they are on this local day, YYYY-MM-DD")
    ] = "",
    json: JsonOption = False,
) -> None:
    """What the registry says of stores.\f

    Raises BadParameter for a store that it does not have, or a day that is none.
    """
    from runtime.registry.stores import load_stores

    registry = Settings.load().registry
    entries = load_stores(registry) if registry.exists() else {}
    if store and store not in entries:
        raise typer.BadParameter(
            f"{registry} has no store {store!r}; it has {', '.join(sorted(entries)) or 'none'}"
        )
    try:
        day = date.fromisoformat(on) if on else None
    except ValueError as error:
        raise typer.BadParameter(f"{on!r} is no day; write for example 2026-05-01") from error
    shown = {
        store_id: (entry if day is None else entry.valid_on(day)).to_fields()
        for store_id, entry in sorted(entries.items())
        if not store or store_id == store
    }
    rows = (
        (store_id, field, value_text(value))
        for store_id, fields in shown.items()
        for field, value in (fields or {NOTHING: None}).items()
    )
    table = build_table(("store", "field", "value"), rows)
    print_answer(json, {"registry": registry, "on": day, "stores": shown}, table)


def _current_stores(registry: Path) -> "dict[str, StoreEntry]":
    """The stores of the current registry; none if it does not exist or cannot be read."""
    from runtime.registry.stores import load_stores

    if not registry.exists():
        return {}
    try:
        return load_stores(registry)
    except BadSettings as error:
        # An error here would make it impossible to replace a broken registry.
        print_note(f"the registry as it is cannot be read, every store counts as added: {error}")
        return {}


def _next_step(registry: Path, dry_run: bool) -> str:
    if dry_run:
        return f"{registry} is as it was; without --dry-run FILE becomes it"
    return (
        f"{registry} is written. Running services read it when they start again:"
        f" `tally down {READERS}`, then `tally up`;"
        f" on a server `docker compose restart {READERS}`"
    )


def _print_change(change: "RegistryChange", stores: int) -> None:
    print_note(f"{stores:,} stores in the file")
    if change.is_none:
        print_note("nothing that the registry says changes")
        return
    whole = dict.fromkeys(change.added, "added") | dict.fromkeys(change.removed, "removed")
    rows = [(store, what, NOTHING, NOTHING, NOTHING) for store, what in whole.items()]
    for changed in change.changed:
        values = (value_text(changed.before), value_text(changed.after))
        rows.append((changed.store, changed.field, changed.from_day or NOTHING, *values))
    print_table(("store", "field", "from", "before", "after"), rows)
