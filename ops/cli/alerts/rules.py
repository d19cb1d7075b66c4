"""`tally rules`: rules of alerts from files into their topic, and what is in force."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from ops.cli.jobs import add_job
from ops.cli.shared import NOTHING, JsonOption, build_table, print_answer, value_text
from runtime.process.output import print_json, print_note
from tally.config.settings import Settings
from tally.errors import BadRule
from tally.time.instants import format_utc, from_millis

if TYPE_CHECKING:
    from alerting.rules.rule import Rule, RuleVersion
    from alerting.rules.versions import RuleHistory, RulePlan

RulePaths = Annotated[
    list[Path],
    typer.Argument(metavar="FILE…", exists=True, help="files of one rule each, or folders of them"),
]
RULE_FILES = (".yaml", ".yml")
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
    found = _read(files).with_known(None)
    later = found.not_judged()
    if json:
        fits = {"ok": not found.problems, "rules": list(found.rules)}
        print_json({**fits, "problems": found.problems, "not_judged": list(later)})
    for reason in later.values():
        print_note(reason)
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
    print_answer(json, {"rules": [*map(_as_json, plan)]}, _plan_table(plan))
    # The exit code is that of `diff` for files, for scripts.
    if any(planned.stored for planned in plan):
        raise typer.Exit(1)


@group.command("apply")
def apply_rules(files: RulePaths, json: JsonOption = False) -> None:
    """Write what FILE changes; the version of each rule and from when it is in force.

    A rule that says the same writes nothing. All files are checked before the first is written.\f
    Raises BadParameter and Exit as `check`, also for a rule that is not judged yet; RuleConflict
    when another writer was first, SendFailed when Kafka does not take it.
    """
    from alerting.rules.topic import write_rules

    found, chains = _read_both(files)
    # All rules are checked first: a command writes all its rules or none.
    _end_on_problems(found, [*found.not_judged().values()])
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
    from alerting.rules.topic import RuleReader, write_rules
    from alerting.rules.versions import plan_retirement

    settings = Settings.load()
    [version] = write_rules(settings, [plan_retirement(rule_id, RuleReader(settings).read())])
    print_answer(json, _version_json(version), [_version_text(version)])


@group.command("list")
def list_rules(json: JsonOption = False) -> None:
    """The newest version of each rule, those that are retired too."""
    from alerting.rules.topic import RuleReader

    chains = RuleReader(Settings.load()).read()
    # Retired rules stay listed, because their alerts are still shown.
    newest = [chain[-1] for _, chain in sorted(chains.versions.items())]
    for problem in chains.problems:
        print_note(f"a record of alert-rules says nothing: {problem}")
    names = ("rule", "version", "in force from", "kind", "metric or source", "title")
    rows = []
    for rule_version in newest:
        rule = rule_version.rule
        kind = "retired" if rule_version.retired else rule.kind
        source = rule.metric or rule.family or NOTHING
        version = _number(rule_version), _from(rule_version)
        rows.append((rule.rule_id, *version, kind, source, rule.title))
    shown = [*map(_version_json, newest)]
    print_answer(json, {"rules": shown, "unread": chains.problems}, build_table(names, rows))


add_job(group, "rules baselines")


@dataclass(frozen=True)
class RuleFiles:
    """The rules of several files by id, the file of each rule, and one line per problem."""

    rules: "Mapping[str, Rule]"
    files: Mapping[str, Path]
    problems: Sequence[str]

    def with_known(self, known: "Mapping[str, Rule] | None") -> "RuleFiles":
        """Add the problems between these rules and those in force; None: those are unknown."""
        from alerting.rules.rule_file import find_contradictions

        found = [
            f"{self.files[rule_id]}: {problem}"
            for rule_id, problems in find_contradictions(self.rules, known).items()
            for problem in problems
        ]
        return replace(self, problems=[*self.problems, *found])

    def not_judged(self) -> dict[str, str]:
        """Why rules are not judged yet, with their files, by id."""
        from alerting.rules.checks import find_unsupported_field

        reasons = {rule_id: find_unsupported_field(rule) for rule_id, rule in self.rules.items()}
        found = {rule_id: reason for rule_id, reason in reasons.items() if reason}
        return {rule_id: f"{self.files[rule_id]}: {reason}" for rule_id, reason in found.items()}


def _read(paths: Iterable[Path]) -> RuleFiles:
    """The rules of the files, and of the YAML files of each folder; one rule per file."""
    from alerting.rules.rule_file import parse_rule_yaml

    files = [file for path in paths for file in _list_files(path)]
    if not files:
        raise typer.BadParameter(f"no file there ends with {' or '.join(RULE_FILES)}")
    rules: dict[str, Rule] = {}
    owners: dict[str, Path] = {}
    problems: list[str] = []
    for file in files:
        try:
            rule = parse_rule_yaml(file.read_bytes())
        # The other files are read all the same, so that all problems are reported at once.
        except BadRule as error:
            problems += [f"{file}: {problem}" for problem in error.problems]
        except OSError as error:
            problems.append(f"{file}: cannot be read: {error.strerror}")
        else:
            first = owners.setdefault(rule.rule_id, file)
            if rule.rule_id in rules:
                problems.append(f"{file}: rule_id: {rule.rule_id} is that of {first}; rename one")
            else:
                rules[rule.rule_id] = rule
    return RuleFiles(rules, owners, problems)


def _list_files(path: Path) -> list[Path]:
    # Sorted by name, so that the order is the same on every machine.
    is_folder = path.is_dir()
    files = sorted(path.iterdir()) if is_folder else [path]
    return [file for file in files if not is_folder or file.suffix in RULE_FILES]


def _read_both(paths: Iterable[Path]) -> "tuple[RuleFiles, RuleHistory]":
    """The files' rules, checked against the rules in force, and the versions of all rules."""
    from alerting.rules.topic import RuleReader

    found = _read(paths)
    # Problems in the files alone are reported first, because Kafka may be away.
    _end_on_problems(found)
    chains = RuleReader(Settings.load()).read()
    return found.with_known(chains.active_rules()), chains


def _plan(found: RuleFiles, chains: "RuleHistory") -> "list[RulePlan]":
    from alerting.rules.versions import plan_rule

    rules = found.rules.items()
    return [plan_rule(rule, chains.newest_version(rule_id)) for rule_id, rule in rules]


def _end_on_problems(found: RuleFiles, more: Sequence[str] = ()) -> None:
    problems = [*found.problems, *more]
    for problem in problems:
        print_note(f"rules: {problem}")
    if problems:
        raise typer.Exit(1)


def _as_json(planned: "RulePlan") -> dict[str, Any]:
    version = planned.stored.version if planned.stored else None
    what = {"rule_id": planned.rule_id, "change": planned.change, "version": version}
    return {**what, "fields": [field._asdict() for field in planned.fields]}


def _version_json(version: "RuleVersion") -> dict[str, Any]:
    from alerting.rules.rule import rule_to_fields

    number = {"version": version.version, "revision": version.revision}
    state = {"effective_from": _from(version), "retired": version.retired}
    named = {"rule_id": version.rule.rule_id, **number, **state}
    return {**named, "rule": rule_to_fields(version.rule)}


def _version_text(version: "RuleVersion") -> str:
    ended = "retired" if version.retired else "in force"
    return f"{version.rule.rule_id} version {_number(version)}, {ended} from {_from(version)}"


def _number(version: "RuleVersion") -> str:
    return f"{version.version}{f'.{version.revision}' if version.revision > 1 else ''}"


def _from(version: "RuleVersion") -> str:
    return format_utc(from_millis(version.effective_from))


def _plan_table(plan: "Sequence[RulePlan]") -> Table:
    rows = []
    for planned in plan:
        # All fields of a new rule are new, so one line is enough.
        fields = planned.fields if planned.change in ("version", "revision") else ()
        head = (planned.rule_id, _WORDS[planned.change])
        changes = [(name, value_text(was), value_text(is_now)) for name, was, is_now in fields]
        rows += [(*head, *change) for change in changes or [(NOTHING, NOTHING, NOTHING)]]
    return build_table(("rule", "change", "field", "before", "after"), rows)
