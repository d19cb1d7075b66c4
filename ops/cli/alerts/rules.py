"""`tally rules`: rules of alerts from files into their topic, and what is in force."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ops.cli.jobs import add_job
from ops.cli.shared import NOTHING, JsonOption, print_answer, print_table, value_text
from runtime.process.output import print_json, print_note
from tally.config.settings import Settings
from tally.time.instants import format_utc, from_millis

if TYPE_CHECKING:
    from alerting.rules.changes import RulePlan
    from alerting.rules.rule import RuleVersion
    from alerting.rules.versions import RuleHistory
    from ops.rules import RuleFiles

RulePaths = Annotated[
    list[Path],
    typer.Argument(metavar="FILE…", exists=True, help="files of one rule each, or folders of them"),
]
_WORDS = {
    "new": "a new rule",
    "version": "a new version",
    "revision": "published in another way from now on",
    "same": "as it was",
}

group = typer.Typer(
    name="rules",
    help="Rules of alerts: check, diff, apply, retire, list; what is usual.",
    no_args_is_help=True,
)


@group.command()
def check(files: RulePaths, json: JsonOption = False) -> None:
    """Whether the rules of FILE fit, by themselves and together; nothing is asked of Kafka.\f

    Raises BadParameter for a folder without rules, Exit with 1 where something does not fit.
    """
    from alerting.rules.checks import find_unsupported_field

    found = _read(files).with_known(None)
    later = {
        rule_id: reason
        for rule_id, rule in found.rules.items()
        if (reason := find_unsupported_field(rule))
    }
    if json:
        fits = {"ok": not found.problems, "rules": list(found.rules)}
        print_json({**fits, "problems": found.problems, "not_judged": list(later)})
    for rule_id, reason in later.items():
        print_note(f"{found.files[rule_id]}: {reason}")
    _end_on_problems(found)
    print_note("1 rule fits" if len(found.rules) == 1 else f"{len(found.rules):,} rules fit")


@group.command()
def diff(files: RulePaths, json: JsonOption = False) -> None:
    """What applying FILE would change; exit code 1 if it would change anything.\f

    Raises BadParameter and Exit as `check`, StackError and KafkaException when Kafka is away.
    """
    found, chains = _read_both(files)
    _end_on_problems(found)
    plan = _plan(found, chains)
    if json:
        print_json({"rules": [_as_json(planned) for planned in plan]})
    else:
        _print_plan(plan)
    # The exit code is that of `diff` for files, for scripts.
    if any(planned.stored for planned in plan):
        raise typer.Exit(1)


@group.command("apply")
def apply_rules(files: RulePaths, json: JsonOption = False) -> None:
    """Write what FILE changes; the version of each rule and from when it is in force.

    A rule that says the same writes nothing. All files are checked before the first is written.
    \f
    Raises BadParameter and Exit as `check`, also for a rule that is not judged yet; RuleConflict
    when another writer was first, SendFailed when Kafka does not take it.
    """
    from alerting.rules.checks import find_unsupported_field
    from alerting.rules.store.topic import write_rules

    found, chains = _read_both(files)
    later = ((rule_id, find_unsupported_field(rule)) for rule_id, rule in found.rules.items())
    # All rules are checked first: a command writes all its rules or none.
    places = found.files
    refused = [f"{places[rule_id]}: {reason}" for rule_id, reason in later if reason]
    _end_on_problems(found, refused)
    plan = _plan(found, chains)
    written = write_rules(Settings.load(), [planned.stored for planned in plan if planned.stored])
    now = {rule_version.rule.rule_id: (rule_version,) for rule_version in written}
    versions_by_id = {**chains.versions, **now}
    versions = [versions_by_id[planned.rule_id][-1] for planned in plan]
    changes = [*zip(versions, (planned.change for planned in plan), strict=True)]
    shown = [{**_version_json(version), "change": change} for version, change in changes]
    lines = (f"{_version_text(version)}: {_WORDS[change]}" for version, change in changes)
    print_answer(json, {"rules": shown}, lines)


@group.command()
def retire(
    rule_id: Annotated[str, typer.Argument(metavar="ID", help="the rule")], json: JsonOption = False
) -> None:
    """End a rule by a last version of it; published alerts stay.\f

    Raises TallyError for a rule that is not in force, or that others name in `unless`.
    """
    from alerting.rules.changes import plan_retirement
    from alerting.rules.store.topic import RuleReader, write_rules

    settings = Settings.load()
    [version] = write_rules(settings, [plan_retirement(rule_id, RuleReader(settings).read())])
    print_answer(json, _version_json(version), [_version_text(version)])


@group.command("list")
def list_rules(json: JsonOption = False) -> None:
    """The newest version of each rule, those that are retired too."""
    from alerting.rules.store.topic import RuleReader

    chains = RuleReader(Settings.load()).read()
    # Retired rules stay listed, because their alerts are still shown.
    newest = [chain[-1] for _, chain in sorted(chains.versions.items())]
    for problem in chains.problems:
        print_note(f"a record of alert-rules says nothing: {problem}")
    if json:
        shown = [_version_json(rule_version) for rule_version in newest]
        print_json({"rules": shown, "unread": chains.problems})
        return
    names = ("rule", "version", "in force from", "kind", "metric or source", "title")
    rows = []
    for rule_version in newest:
        rule = rule_version.rule
        kind = "retired" if rule_version.retired else rule.kind
        source = rule.metric or rule.family or NOTHING
        version = _number(rule_version), _from(rule_version)
        rows.append((rule.rule_id, *version, kind, source, rule.title))
    print_table(names, rows)


add_job(group, "rules baselines")


def _read(paths: Iterable[Path]) -> "RuleFiles":
    from ops.rules import ENDINGS, read_rules, rule_files

    files = rule_files(paths)
    if not files:
        raise typer.BadParameter(f"no file there ends with {' or '.join(ENDINGS)}")
    return read_rules(files)


def _read_both(paths: Iterable[Path]) -> "tuple[RuleFiles, RuleHistory]":
    """The files' rules, checked against the rules in force, and the versions of all rules."""
    from alerting.rules.store.topic import RuleReader

    found = _read(paths)
    # Problems in the files alone are reported first, because Kafka may be away.
    _end_on_problems(found)
    chains = RuleReader(Settings.load()).read()
    return found.with_known(chains.active_rules()), chains


def _plan(found: "RuleFiles", chains: "RuleHistory") -> "list[RulePlan]":
    from ops.rules import plan_changes

    return plan_changes(found.rules, chains)


def _end_on_problems(found: "RuleFiles", more: Sequence[str] = ()) -> None:
    problems = [*found.problems, *more]
    for problem in problems:
        print_note(f"rules: {problem}")
    if problems:
        raise typer.Exit(1)


def _as_json(planned: "RulePlan") -> dict[str, Any]:
    stored = planned.stored
    return {
        "rule_id": planned.rule_id,
        "change": planned.change,
        "version": stored.version if stored else None,
        "fields": [field._asdict() for field in planned.fields],
    }


def _version_json(version: "RuleVersion") -> dict[str, Any]:
    from alerting.rules.rule import rule_to_fields

    return {
        "rule_id": version.rule.rule_id,
        "version": version.version,
        "revision": version.revision,
        "effective_from": _from(version),
        "retired": version.retired,
        "rule": rule_to_fields(version.rule),
    }


def _version_text(version: "RuleVersion") -> str:
    ended = "retired" if version.retired else "in force"
    return f"{version.rule.rule_id} version {_number(version)}, {ended} from {_from(version)}"


def _number(version: "RuleVersion") -> str:
    return (
        f"{version.version}" if version.revision == 1 else f"{version.version}.{version.revision}"
    )


def _from(version: "RuleVersion") -> str:
    return format_utc(from_millis(version.effective_from))


def _print_plan(plan: "Sequence[RulePlan]") -> None:
    rows = []
    for planned in plan:
        # All fields of a new rule are new, so one line is enough.
        fields = planned.fields if planned.change in ("version", "revision") else ()
        head = (planned.rule_id, _WORDS[planned.change])
        for field in fields:
            values = value_text(field.before), value_text(field.after)
            rows.append((*head, field.field, *values))
        if not fields:
            rows.append((*head, NOTHING, NOTHING, NOTHING))
    print_table(("rule", "change", "field", "before", "after"), rows)
