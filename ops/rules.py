"""The rule files of a command line: read together, and compared with the rules in the topic."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from alerting.rules.changes import RulePlan, plan_rule
from alerting.rules.rule import Rule
from alerting.rules.rule_file import find_contradictions
from alerting.rules.store.files import parse_rule_yaml
from alerting.rules.versions import RuleHistory
from tally.errors import BadRule

ENDINGS = (".yaml", ".yml")


@dataclass(frozen=True)
class RuleFiles:
    """The rules of several files by id, the file of each rule, and one line per problem."""

    rules: Mapping[str, Rule]
    files: Mapping[str, Path]
    problems: Sequence[str]

    def with_known(self, known: Mapping[str, Rule] | None) -> "RuleFiles":
        """Add the problems between these rules and those in force; None: those are unknown."""
        together = find_contradictions(self.rules, known)
        found = [
            f"{self.files[rule_id]}: {problem}"
            for rule_id, problems in together.items()
            for problem in problems
        ]
        return RuleFiles(self.rules, self.files, [*self.problems, *found])


def rule_files(paths: Iterable[Path]) -> list[Path]:
    """The named files, and the YAML files of each named folder, in order."""
    return [file for path in paths for file in _list_files(path)]


def read_rules(files: Iterable[Path]) -> RuleFiles:
    """Read one rule per file; a second rule with the same id is a problem of its file."""
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
            if rule.rule_id in rules:
                first = owners[rule.rule_id]
                problems.append(f"{file}: rule_id: {rule.rule_id} is that of {first}; rename one")
            else:
                rules[rule.rule_id], owners[rule.rule_id] = rule, file
    return RuleFiles(rules, owners, problems)


def plan_changes(rules: Mapping[str, Rule], chains: RuleHistory) -> list[RulePlan]:
    """The records that applying each rule would write, in the order of the files."""
    return [plan_rule(rule, chains.newest_version(rule_id)) for rule_id, rule in rules.items()]


def _list_files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    # Sorted by name, so that the order is the same on every machine.
    yield from sorted(file for file in path.iterdir() if file.suffix in ENDINGS)
