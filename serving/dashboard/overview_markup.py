"""A store's row of the overview as markup; on a phone its cells stand below each other."""

from collections.abc import Sequence
from html import escape

from serving.dashboard.labels import NOTHING, TITLES, signed_text
from serving.dashboard.report_labels import STATES, FigureWord, state_of, state_of_all
from serving.dashboard.report_markup import attributes, machine_values, state_chip
from serving.dashboard.source import COMPARED, StoreChoice
from serving.dashboard.unit_style import UnitStyle
from serving.query import catalogue
from serving.reports.comparison import ComparedValue, Withheld

_STATE = "State"


def head_of() -> str:
    """The head of the table, a column for each compared metric."""
    first, *others = ["Store", *_titles(), _STATE]
    cells = "".join(
        f"<th scope='col' role='columnheader' class='t-num'>{escape(title)}</th>"
        for title in others
    )
    return f"<tr role='row'><th scope='col' role='columnheader'>{first}</th>{cells}</tr>"


def row_of(one: StoreChoice, address: str, found: Sequence[ComparedValue | Withheld]) -> str:
    """The cells of a store: its name, each value with its change, and the state of them all."""
    cells = "".join(
        _cell(title, metric, compared, one.store.currency)
        for title, metric, compared in zip(_titles(), COMPARED, found, strict=True)
    )
    states = [state_of(compared) for compared in found]
    known = sum(state not in ("unknown", "withheld") for state in states)
    # Said only where some are known and some are not.
    note = f"{known} of {len(states)} numbers" if 0 < known < len(states) else ""
    return f"{_name(one, address)}{cells}{_state(state_chip(state_of_all(states)), note)}"


def pending_row(one: StoreChoice, address: str) -> str:
    """The row of a store whose numbers are still being read."""
    return _empty_row(one, address, "<span class='t-chip'>… Being read</span>", "…")


def unreachable_row(one: StoreChoice, address: str) -> str:
    """The row of a store whose numbers cannot be read right now."""
    chip = "<span class='t-chip t-withheld'>⊘ Cannot be read</span>"
    return _empty_row(one, address, chip, NOTHING)


def _empty_row(one: StoreChoice, address: str, chip: str, text: str) -> str:
    # As high as a row with numbers: what is below does not jump when they come.
    cells = "".join(f"<td{_labelled(title)}>{text}{_changed('&nbsp;')}</td>" for title in _titles())
    return f"{_name(one, address)}{cells}{_state(chip, '')}"


def _titles() -> list[str]:
    return [TITLES.get(one, catalogue.metric(one).entry.name) for one in COMPARED]


def _name(one: StoreChoice, address: str) -> str:
    link = f"<a href='{escape(address)}'>{escape(one.label)}</a>"
    return f"<th scope='row' role='rowheader'>{link}</th>"


def _cell(title: str, metric: str, found: ComparedValue | Withheld, currency: str) -> str:
    state = state_of(found)
    marked = f"{_labelled(title)} data-metric='{metric}' data-state='{state}'"
    if isinstance(found, Withheld):
        noted = f"{marked} title='{escape(found.reason)}'"
        return f"<td{noted}><span>{_mark(state)}{NOTHING}</span>{_changed(NOTHING)}</td>"
    style = UnitStyle(found.unit, found.currency or currency)
    # The other units stand in the head.
    is_money = found.unit == "minor" and found.value is not None
    unit = f" <span class='t-unit'>{style.word}</span>" if is_money else ""
    change = NOTHING if found.change_percent is None else signed_text(found.change_percent)
    return (
        f"<td{marked}{attributes(machine_values(found))}>"
        f"<span>{_mark(state)}{style.text(found.value)}{unit}</span>{_changed(change)}</td>"
    )


def _mark(state: FigureWord) -> str:
    # A number that is final needs no sign of it in every cell.
    if state == "complete":
        return ""
    sign, word = STATES[state]
    named = f"title='{word}' role='img' aria-label='{word}'"
    return f"<span class='t-mark t-{state}' {named}>{sign}</span> "


def _changed(text: str) -> str:
    return f"<span class='t-change'>{text}</span>"


def _state(chip: str, note: str) -> str:
    noted = _changed(note) if note else ""
    return f"<td{_labelled(_STATE)}>{chip}{noted}</td>"


def _labelled(title: str) -> str:
    # What stands beside the number where the head is out of sight.
    return f" role='cell' class='t-num' data-label='{escape(title)}'"
