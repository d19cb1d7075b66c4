"""Markup of the pages: text that is no Markup is escaped wherever it is put in."""

from collections.abc import Iterable, Mapping
from functools import partial

from markupsafe import Markup, escape

# Markup is taken as it is; whatever else is text.
Content = object
Attribute = str | float | None
TableRows = Iterable[Markup]


def element(tag: str, *content: Content, **attributes: Attribute) -> Markup:
    """An element; `class_` is its class, `data_state` its `data-state`; None is left out."""
    named = join(
        Markup(" {}='{}'").format(name.rstrip("_").replace("_", "-"), value)
        for name, value in attributes.items()
        if value is not None
    )
    return Markup("<{}{}>{}</{}>").format(tag, named, join(content), tag)


def join(parts: Iterable[Content], between: str = "") -> Markup:
    """The parts one behind the other."""
    return Markup(between).join(map(escape, parts))


# An element within a line.
span = partial(element, "span")
# A line of small text below a number, or the outcome of an action.
note = partial(element, "p", class_="t-known")
# The line below a panel's title.
subtitle = partial(element, "p", class_="t-sub")
# A line of small text at the end of a panel or page.
foot = partial(element, "p", class_="t-foot")


def failure_text(reason: str) -> Markup:
    """The message why nothing was done, and what to do."""
    return note(f"⊘ {reason}", role="alert", data_refused="true")


def second_line(text: Content) -> Markup:
    """A second, smaller line within a cell; empty without a text."""
    return span(text, class_="t-change") if text else Markup("")


def link(address: str, *content: Content, **attributes: Attribute) -> Markup:
    """A link to an address of ours."""
    return element("a", *content, href=address, **attributes)


def api_link(address: str) -> Markup:
    """A link that shows its address, one of the HTTP API."""
    return link(address, element("code", address))


def chip(sign: str, word: str, kind: str = "", **attributes: Attribute) -> Markup:
    """A state as a chip with sign, word and colour, so that nothing depends on colour alone."""
    # The sign only repeats the word and is hidden from screen readers, which would spell it out.
    hidden = span(sign, aria_hidden="true")
    classes = f"t-chip t-{kind}" if kind else "t-chip"
    return span(hidden, f" {word}", class_=classes, **attributes)


def scroll(content: Markup, **label: Attribute) -> Markup:
    """A region that keyboard users can scroll, with its label."""
    return element("div", content, class_="t-scroll", role="region", tabindex=0, **label)


def facts(values: Mapping[str, Content]) -> Markup:
    """A list of names and values."""
    parts = []
    for name, value in values.items():
        parts += [element("dt", name), element("dd", value)]
    return element("dl", *parts, class_="t-facts")


def table(
    names: Iterable[Content], rows: TableRows, kind: str = "", number: str | None = None
) -> Markup:
    """A table with a column of each name; `number`: the class of all columns but the first."""
    head = element("thead", element("tr", *_heads(names, number)))
    return element("table", head, element("tbody", *rows), class_=f"t-table {kind}".rstrip())


def _heads(names: Iterable[Content], number: Attribute, role: Attribute = None) -> TableRows:
    heads = []
    for place, name in enumerate(names):
        kind = number if place else None
        heads.append(element("th", name, scope="col", role=role, class_=kind))
    return heads


def row(*cells: Content, **attributes: Attribute) -> Markup:
    """A row of a table, each of its cells in an element of its own."""
    return element("tr", *(element("td", cell) for cell in cells), **attributes)


def card_table(names: Iterable[str], rows: TableRows, kind: str = "") -> Markup:
    """A table of which each row is a card on a phone, so it needs the roles that a table has."""
    head = element("thead", card_head(names), role="rowgroup")
    body = element("tbody", *rows, role="rowgroup")
    classes = f"t-table t-stores t-alerts {kind}".rstrip()
    return element("table", head, body, class_=classes, role="table")


def card_head(names: Iterable[str], number: str | None = None) -> Markup:
    """The head of a stacked table; `number`: the class of all columns but the first."""
    return element("tr", *_heads(names, number, "columnheader"), role="row")


def card_name(*content: Content) -> Markup:
    """The cell that names a row of a stacked table."""
    return element("th", *content, scope="row", role="rowheader")


def card_row(name: Content, cells: Mapping[str, Content], **attributes: Attribute) -> Markup:
    """A row of a stacked table: what it is of, and its cells by the name of their column."""
    shown = [card_name(name)]
    for title, cell in cells.items():
        # The label is shown on a phone.
        shown.append(element("td", cell, role="cell", data_label=title))
    return element("tr", *shown, role="row", **attributes)
