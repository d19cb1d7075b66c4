import re
from collections.abc import Callable, Iterator
from datetime import date

import pytest

from alerting.rules.rule_file import parse_rule_yaml
from ops.docs.reference import variables
from runtime.registry.store_fields import FIELDS
from runtime.registry.stores import CHANGES, parse_stores
from tests.docs.pages import (
    FOLDERS,
    ROOT,
    anchors_of,
    code_of,
    file_names,
    files_shown,
    folder_rows,
    links_of,
    make_targets,
    pages,
    verbs,
)

BY_PAGE = pytest.mark.parametrize("page", pages())
ELSEWHERE = ("https://", "http://", "mailto:")


@BY_PAGE
def test_every_link_leads_somewhere(page: str) -> None:
    assert [link for link in links_of(pages()[page]) if not leads_somewhere(page, link)] == []


@BY_PAGE
def test_every_verb_that_code_names_is_one_of_tally(page: str) -> None:
    assert names_in(page, r"(?:^|[\s$(])tally ([a-z][a-z-]*)") - verbs() == set()


@BY_PAGE
def test_every_test_that_a_page_links_is_in_the_file_it_leads_to(page: str) -> None:
    linked = re.findall(r"\[`(test_\w+)`\]\(\.\./(tests/[\w/]+\.py)\)", pages()[page])

    assert [
        name for name, file in linked if f"def {name}(" not in (ROOT / file).read_text("utf-8")
    ] == []


@BY_PAGE
def test_every_make_target_that_code_names_is_there(page: str) -> None:
    assert names_in(page, r"(?:^|[\s$(])make ([a-z][a-z-]*)") - make_targets() == set()


@BY_PAGE
def test_every_module_that_code_starts_is_there(page: str) -> None:
    started = {name.replace(".", "/") for name in names_in(page, r"python -m ((?:\w+\.)+\w+)")}

    assert [
        name
        for name in started
        if not ((ROOT / f"{name}.py").exists() or (ROOT / name / "__main__.py").exists())
    ] == []


@BY_PAGE
def test_every_setting_that_a_page_names_is_there(page: str) -> None:
    named = set(re.findall(r"\bTALLY_[A-Z_]*[A-Z]\b", pages()[page]))

    assert named - variables() - {"TALLY_TEST_STACK_HOME"} == set()


@BY_PAGE
def test_every_file_that_code_names_by_its_folder_is_there(page: str) -> None:
    named = names_in(page, rf"^((?:{'|'.join(FOLDERS)})/(?:[\w./-]*\w/?)?)$")

    assert [name for name in named if not (ROOT / name).exists()] == []


@BY_PAGE
def test_every_file_that_code_names_without_its_folder_is_there(page: str) -> None:
    named = names_in(page, r"^([\w-][\w.-]*\.(?:py|yaml|yml|json|cql|toml|lock|xml|sh|svg))$")

    assert named - file_names() == set()


def test_what_the_code_map_names_lies_in_the_folder_of_its_row() -> None:
    assert [*misplaced(pages()["ARCHITECTURE.md"])] == []


@pytest.mark.parametrize("name", ["image/", "walls.py"])
@pytest.mark.parametrize("row", ["| `ops/` | {} | `x` |", "| `ops/` | a | b |\n| | {} | b |"])
def test_a_planted_name_that_lies_elsewhere_is_found(row: str, name: str) -> None:
    assert [*misplaced(row.format(f"`cli/` and `{name}`"))] == [f"ops/{name}"]


@BY_PAGE
def test_every_file_that_a_page_shows_is_shown_as_it_is(page: str) -> None:
    shown = files_shown(pages()[page])

    assert {name for name, text in shown.items() if (ROOT / name).read_text("utf-8") != text} == (
        set()
    )


def test_the_page_for_contributors_links_the_source_that_is_sent_through_the_loop() -> None:
    folder = ROOT / "tests" / "e2e" / "eleventh"
    files = {
        str(file.relative_to(ROOT))
        for file in folder.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }

    assert files - set(links_of(pages()["CONTRIBUTING.md"])) == set()


def test_the_page_of_stores_shows_a_stores_file_that_fits_and_names_every_field() -> None:
    text = pages()["docs/stores.md"]
    [example] = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)

    [entry] = parse_stores(example.encode(), ROOT / "docs" / "stores.md").values()

    assert entry.valid_on(date(2026, 6, 1)).tills == 5
    assert {name for name in (*FIELDS, CHANGES) if f"`{name}`" not in text} == set()


def test_the_page_of_alerts_shows_a_rule_that_fits_and_speaks_of_every_verb() -> None:
    text = pages()["docs/alerts.md"]
    [(name, example)] = files_shown(text).items()

    assert (name, parse_rule_yaml(example).rule_id) == (
        "schemas/rules/example.yaml",
        "few-customers-buy",
    )
    assert {verb for verb in ("check", "diff", "apply", "retire", "list") if verb not in text} == (
        set()
    )


def test_the_architecture_page_is_short_and_states_invariants() -> None:
    text = pages()["ARCHITECTURE.md"]

    assert len(text.splitlines()) <= 150
    assert text.count("**Invariant:**") >= 8


def test_the_first_screen_of_the_readme_has_the_two_commands() -> None:
    first_screen = "\n".join(pages()["README.md"].splitlines()[:50])

    assert [
        command
        for command in ("make demo", "make test", "ARCHITECTURE.md", "docs/lambda.svg")
        if command not in first_screen
    ] == []


@pytest.mark.parametrize(
    ("finds", "text", "found"),
    [
        (links_of, "see [x](nowhere.md) and `[y](code.md)`", ["nowhere.md"]),
        (links_of, '<img src="docs/gone.svg">', ["docs/gone.svg"]),
        (
            code_of,
            "`tally frobnicate`\n```sh\nmake nothing\n```\n",
            ["make nothing\n", "tally frobnicate"],
        ),
    ],
)
def test_links_and_code_are_found(
    finds: Callable[[str], list[str]], text: str, found: list[str]
) -> None:
    assert finds(text) == found


def test_a_link_that_leads_nowhere_is_found() -> None:
    assert not leads_somewhere("README.md", "nowhere.md")
    assert not leads_somewhere("README.md", "ARCHITECTURE.md#no-such-heading")
    assert not leads_somewhere("docs/glossary.md", "README.md")


def leads_somewhere(page: str, link: str) -> bool:
    """Whether a relative link's file is there, with the heading that it names; other sites are
    not asked."""
    if link.startswith(ELSEWHERE):
        return True
    path, _, anchor = link.partition("#")
    target = (ROOT / page).parent / path if path else ROOT / page
    return target.exists() and (not anchor or anchor in anchors_of(target.read_text("utf-8")))


def misplaced(text: str) -> Iterator[str]:
    """What rows of a table of folders name by itself and is not in their folder."""
    for folder, told in folder_rows(text):
        for name in re.findall(r"`(\w+/|\w+\.py)`", told):
            if not (ROOT / folder / name).exists():
                yield f"{folder}{name}"


def names_in(page: str, pattern: str) -> set[str]:
    """What a pattern's group finds in the code of a page."""
    return {
        name for code in code_of(pages()[page]) for name in re.findall(pattern, code, re.MULTILINE)
    }
