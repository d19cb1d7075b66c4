"""Rule files of a command line: read all together, and what they change against the topic."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runtime.rules.files import parse_rule
from tally.alerts.rule import Rule
from tally.alerts.rule_changes import PlannedRule, planned
from tally.alerts.rule_file import problems_together
from tally.alerts.versions import RuleChains
from tally.errors import BadRule

ENDINGS = (".yaml", ".yml")


@dataclass(frozen=True)
class RuleFiles:
    """The rules of several files by id, the file of each, and one line for each problem."""

    rules: Mapping[str, Rule]
    files: Mapping[str, Path]
    problems: Sequence[str]

    def with_known(self, known: Mapping[str, Rule] | None) -> "RuleFiles":
        """With what does not fit between these rules and those in force; None: nobody knows."""
        together = problems_together(self.rules, known)
        found = [
            f"{self.files[rule_id]}: {problem}"
            for rule_id, problems in together.items()
            for problem in problems
        ]
        return RuleFiles(self.rules, self.files, [*self.problems, *found])


def rule_files(paths: Iterable[Path]) -> list[Path]:
    """The files that are named, and of a named folder those that end as YAML does, in order."""
    return [file for path in paths for file in _files_of(path)]


def read_rules(files: Iterable[Path]) -> RuleFiles:
    """Every rule that can be read, one a file; two of one id are a problem of the second."""
    rules: dict[str, Rule] = {}
    owners: dict[str, Path] = {}
    problems: list[str] = []
    for file in files:
        try:
            rule = parse_rule(file.read_bytes())
        # The others are read all the same: who mends files wants all lines at once.
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


def changes_of(rules: Mapping[str, Rule], chains: RuleChains) -> list[PlannedRule]:
    """What applying each rule would write, in the order of the files."""
    return [planned(rule, chains.newest(rule_id)) for rule_id, rule in rules.items()]


def _files_of(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    # In the order of names: the same on every machine.
    yield from sorted(file for file in path.iterdir() if file.suffix in ENDINGS)
