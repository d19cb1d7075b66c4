"""A store's row of the overview as markup; on a phone its cells are stacked."""

from collections.abc import Sequence
from html import escape

from serving.metrics import catalogue
from serving.reports.comparison import ComparedValue, WithheldValue
from web.dashboard.reports.labels import STATES, NumberState, combine_states, number_state
from web.dashboard.reports.markup import attributes, machine_values, state_chip
from web.dashboard.shared.labels import NOTHING, TITLES, percent_text
from web.dashboard.shared.source import COMPARED_METRICS, StoreChoice
from web.dashboard.shared.unit_style import UnitStyle

_STATE = "State"


def table_head() -> str:
    """The head of the table, with a column for each compared metric."""
    first, *others = ["Store", *_titles(), _STATE]
    cells = "".join(
        f"<th scope='col' role='columnheader' class='t-num'>{escape(title)}</th>"
        for title in others
    )
    return f"<tr role='row'><th scope='col' role='columnheader'>{first}</th>{cells}</tr>"


def store_row(
    choice: StoreChoice, address: str, found: Sequence[ComparedValue | WithheldValue]
) -> str:
    """The cells of a store: its name, each value with its change, and the overall state."""
    cells = "".join(
        _cell(title, metric, compared, choice.store.currency)
        for title, metric, compared in zip(_titles(), COMPARED_METRICS, found, strict=True)
    )
    states = [number_state(compared) for compared in found]
    known = sum(state not in ("unknown", "withheld") for state in states)
    # The note is shown only if some numbers are known and some are not.
    note = f"{known} of {len(states)} numbers" if 0 < known < len(states) else ""
    return f"{_name(choice, address)}{cells}{_state(state_chip(combine_states(states)), note)}"


def pending_row(choice: StoreChoice, address: str) -> str:
    """The row of a store whose numbers are still being read."""
    return _empty_row(choice, address, "<span class='t-chip'>… Being read</span>", "…")


def unreachable_row(choice: StoreChoice, address: str) -> str:
    """The row of a store whose numbers cannot be read right now."""
    chip = "<span class='t-chip t-withheld'>⊘ Cannot be read</span>"
    return _empty_row(choice, address, chip, NOTHING)


def _empty_row(choice: StoreChoice, address: str, chip: str, text: str) -> str:
    # The row is as high as one with numbers, so that the rows below do not jump when they arrive.
    cells = "".join(
        f"<td{_label_attributes(title)}>{text}{_change_span('&nbsp;')}</td>" for title in _titles()
    )
    return f"{_name(choice, address)}{cells}{_state(chip, '')}"


def _titles() -> list[str]:
    return [TITLES.get(metric, catalogue.metric(metric).entry.name) for metric in COMPARED_METRICS]


def _name(choice: StoreChoice, address: str) -> str:
    link = f"<a href='{escape(address)}'>{escape(choice.label)}</a>"
    return f"<th scope='row' role='rowheader'>{link}</th>"


def _cell(title: str, metric: str, found: ComparedValue | WithheldValue, currency: str) -> str:
    state = number_state(found)
    cell_attributes = f"{_label_attributes(title)} data-metric='{metric}' data-state='{state}'"
    if isinstance(found, WithheldValue):
        withheld = f"{cell_attributes} title='{escape(found.reason)}'"
        return f"<td{withheld}><span>{_mark(state)}{NOTHING}</span>{_change_span(NOTHING)}</td>"
    style = UnitStyle(found.unit, found.currency or currency)
    # The other units are given by the column heads.
    is_money = found.unit == "minor" and found.value is not None
    unit = f" <span class='t-unit'>{style.word}</span>" if is_money else ""
    change = NOTHING if found.change_percent is None else percent_text(found.change_percent)
    return (
        f"<td{cell_attributes}{attributes(machine_values(found))}>"
        f"<span>{_mark(state)}{style.text(found.value)}{unit}</span>{_change_span(change)}</td>"
    )


def _mark(state: NumberState) -> str:
    # A final number needs no sign, because that would repeat in every cell.
    if state == "complete":
        return ""
    sign, word = STATES[state]
    named = f"title='{word}' role='img' aria-label='{word}'"
    return f"<span class='t-mark t-{state}' {named}>{sign}</span> "


def _change_span(text: str) -> str:
    return f"<span class='t-change'>{text}</span>"


def _state(chip: str, note: str) -> str:
    note_span = _change_span(note) if note else ""
    return f"<td{_label_attributes(_STATE)}>{chip}{note_span}</td>"


def _label_attributes(title: str) -> str:
    # The label is shown beside the number where the head is hidden.
    return f" role='cell' class='t-num' data-label='{escape(title)}'"
