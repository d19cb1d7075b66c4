"""The page of all rules, and the page of one rule: its versions and its episodes in a store."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from markupsafe import Markup
from nicegui import ui

from alerting.rules.rule import Rule, RuleVersion
from runtime.registry.sources import FAMILIES
from serving.metrics import catalogue
from tally.errors import UnknownName
from web.dashboard.rules.figure import RuleFigure, RuleFigureSource, describe_rule, rule_chart
from web.dashboard.rules.markup import (
    condition_text,
    episode_table,
    health_text,
    rule_table,
    version_table,
)
from web.dashboard.shared.addresses import (
    Period,
    new_rule_address,
    rule_address,
    rule_edit_address,
    rules_address,
)
from web.dashboard.shared.frame import (
    Frame,
    chart,
    html,
    keep_current,
    load_or_say,
    panel,
    show_frame,
)
from web.dashboard.shared.labels import UnitStyle
from web.dashboard.shared.markup import api_link, element, foot, link, note, scroll, subtitle
from web.dashboard.shared.source import PageSelection, StoreChoice

REFRESH_SECONDS = 120.0


async def show_rules(source: RuleFigureSource, selection: PageSelection) -> None:
    """Draw the page of all rules."""
    chosen, period = selection.chosen, selection.period
    frame = Frame("rules", "Rules", period, lambda _store, _of: rules_address(), chosen)
    show_frame(replace(frame, description="What calls for an alert"))
    with ui.element("main").classes("t-body"):
        await keep_current(source.rules, _show_list, REFRESH_SECONDS)


async def show_rule(source: RuleFigureSource, rule_id: str, selection: PageSelection) -> None:
    """Draw the page of one rule in a store; for an unknown id the page says that there is none."""
    chosen, period = selection.chosen, selection.period

    def address(store_id: str, address_period: Period) -> str:
        return rule_address(rule_id, address_period, store_id)

    frame = Frame("rules", rule_id[:64], period, address, chosen, selection.stores)
    versions = await load_or_say(
        source.versions(rule_id),
        replace(frame, description="Rules"),
        f"There is no rule {rule_id[:64]}",
        "The list above has those that there are.",
    )
    if versions is None:
        return
    show_frame(frame)
    with ui.element("main").classes("t-body"):
        # The text is that of the newest version; a window is evaluated by the version of its time.
        draw = partial(show_rule_figure, rule=versions[-1].rule, chosen=chosen)
        load = partial(source.load_figure, rule_id, chosen.store, period)
        await keep_current(load, draw, REFRESH_SECONDS)
        # A rule that cannot be evaluated would look like a rule without any episodes.
        ask = partial(_load_health_text, source, rule_id, chosen)
        await keep_current(ask, partial(_show_health, rule_id), REFRESH_SECONDS)
        edit = rule_edit_address(rule_id, period, chosen.store.store_id)
        _show_versions(rule_id, versions, edit)


async def _load_health_text(source: RuleFigureSource, rule_id: str, chosen: StoreChoice) -> Markup:
    return health_text(await source.health(rule_id, chosen.store), chosen.store.zone)


def _show_health(rule_id: str, text: Markup) -> None:
    with panel("health"):
        html(
            element("h2", "Can it be judged?", id="health")
            + text
            + foot("Of all its stores: ", api_link(f"/v1/rules/{rule_id}/health"))
        )


def _show_list(rules: Sequence[RuleVersion]) -> None:
    # Retired rules stay listed because their alerts are still shown.
    living = [version for version in rules if not version.retired]
    others = [version for version in rules if version.retired]
    for name, title, versions in (("live", "In force", living), ("retired", "Retired", others)):
        with panel(name):
            html(element("h2", title, id=name))
            html(
                scroll(rule_table(versions), aria_labelledby=name)
                if versions
                else subtitle("None.")
            )
    html(
        foot(
            link(new_rule_address(), "Write a new rule"),
            ", or keep them as files: ",
            element("code", "tally rules apply FILE"),
            ". The same by HTTP: /v1/rules",
        )
    )


def _show_versions(rule_id: str, versions: Sequence[RuleVersion], edit: str) -> None:
    with panel("versions"):
        html(
            element("h2", "Versions", id="versions")
            + scroll(version_table(versions), aria_labelledby="versions")
            + note(link(edit, "Edit this rule"))
            + foot("The same by HTTP: ", api_link(f"/v1/rules/{rule_id}/versions"))
        )


def show_rule_figure(drawn: RuleFigure, rule: Rule, chosen: StoreChoice) -> None:
    """Draw a rule's chart in a store, how much of it is known, and a table of its episodes."""
    title = "What it calls for, and what was published"
    with panel(label=title):
        html(element("h2", title) + subtitle(f"{condition_text(rule)}, in {chosen.label}"))
        if drawn.simulated is None:
            html(
                note(
                    "Nothing: it is not judged, is not about this store, or the store has never"
                    " sent all that it reads.",
                    data_state="missing",
                )
            )
            return
        zone = chosen.store.zone
        style = UnitStyle(_unit(rule), chosen.store.currency)
        # A rule about single articles has nothing to draw if no article calls for an alert.
        if drawn.simulated.values:
            # The chart needs a description, because a canvas has no text of its own.
            chart(rule_chart(drawn, style, zone), f"{title}: {describe_rule(drawn)}")
        state = "complete" if _is_known(drawn) else "partial"
        html(note(_certainty_text(drawn), data_known="", data_state=state))
        # The table makes the episodes available to readers who cannot see the chart.
        if drawn.simulated.episodes:
            episodes = episode_table(drawn, rule, zone, chosen.store.currency)
            html(scroll(episodes, aria_label="Episodes"))


def _unit(rule: Rule) -> str:
    if rule.kind == "silence":
        return "events" if (rule.family or "") in FAMILIES else ""
    try:
        return catalogue.metric(rule.metric or "").entry.unit
    except UnknownName:
        return ""


def _is_known(drawn: RuleFigure) -> bool:
    assert drawn.simulated is not None
    return drawn.simulated.is_certain and not drawn.simulated.incomplete_days


def _certainty_text(drawn: RuleFigure) -> str:
    """How far the simulation is certain; it assumes that the rule had always been in force."""
    assert drawn.simulated is not None
    description = describe_rule(drawn)
    # Incomplete windows are counted in the text, and not only shown in grey in the chart.
    missing = sum(day.incomplete_windows for day in drawn.simulated.incomplete_days)
    sentences = [f"As if the rule had always been in force: {description}."]
    subjects = {episode.subject for episode in drawn.simulated.episodes}
    if left := subjects - drawn.simulated.values.keys():
        sentences.append(f"Of {len(left):,} more the table alone has the episodes.")
    if missing:
        sentences.append(f"{missing:,} quarter hours are not served complete, and raise nothing.")
    if not drawn.simulated.is_certain:
        sentences.append("An episode may have begun before: the days before do not show it.")
    return " ".join(sentences)
