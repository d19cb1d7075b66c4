"""The page of all rules, and the page of one rule: its versions and its episodes in a store."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from html import escape
from http import HTTPStatus

from nicegui import ui

from alerting.rules.rule import Rule, RuleVersion
from runtime.registry.sources import FAMILIES
from serving.metrics import catalogue
from tally.errors import UnknownName, ViewsUnreachable
from web.dashboard.rules.chart import describe_rule, rule_chart
from web.dashboard.rules.markup import (
    condition_text,
    episode_table,
    health_text,
    rule_table,
    version_table,
)
from web.dashboard.rules.source import RuleFigure, RuleFigureSource
from web.dashboard.shared.addresses import (
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
    log_unreachable,
    say,
    say_unreachable,
    show_frame,
)
from web.dashboard.shared.period import Period
from web.dashboard.shared.source import StoreChoice
from web.dashboard.shared.unit_style import UnitStyle

REFRESH_SECONDS = 120.0


async def show_rules(source: RuleFigureSource, chosen: StoreChoice, period: Period) -> None:
    """Draw the page of all rules."""
    frame = Frame("rules", "Rules", period, lambda _store, _of: rules_address(), chosen)
    show_frame(replace(frame, description="What calls for an alert"))
    with ui.element("main").classes("t-body"):
        await keep_current(source.rules, _show_list, REFRESH_SECONDS)


async def show_rule(
    source: RuleFigureSource,
    rule_id: str,
    stores: Sequence[StoreChoice],
    chosen: StoreChoice,
    period: Period,
) -> None:
    """Draw the page of one rule in a store; for an unknown id the page says that there is none."""

    def address(store_id: str, address_period: Period) -> str:
        return rule_address(rule_id, address_period, store_id)

    frame = Frame("rules", rule_id[:64], period, address, chosen, stores)
    try:
        versions = await source.versions(rule_id)
    except UnknownName:
        ui.context.client.status_code = HTTPStatus.NOT_FOUND
        show_frame(replace(frame, heading="Not found", description="Rules"))
        with ui.element("main"):
            say(f"There is no rule {rule_id[:64]}", "The list above has those that there are.")
        return
    except ViewsUnreachable as error:
        log_unreachable(error)
        show_frame(replace(frame, description="Rules"))
        with ui.element("main"):
            say_unreachable()
        return
    show_frame(frame)
    with ui.element("main").classes("t-body"):
        # The text is that of the newest version; each window is judged by the version of its time.
        draw = partial(show_rule_figure, rule=versions[-1].rule, chosen=chosen)
        load = partial(source.load_figure, rule_id, chosen.store, period)
        await keep_current(load, draw, REFRESH_SECONDS)
        # A rule that cannot be judged would look like a rule without any episodes.
        ask = partial(_load_health_text, source, rule_id, chosen)
        await keep_current(ask, partial(_show_health, rule_id), REFRESH_SECONDS)
        edit = rule_edit_address(rule_id, period, chosen.store.store_id)
        _show_versions(rule_id, versions, edit)


async def _load_health_text(source: RuleFigureSource, rule_id: str, chosen: StoreChoice) -> str:
    return health_text(await source.health(rule_id, chosen.store), chosen.store.zone)


def _show_health(rule_id: str, text: str) -> None:
    address = escape(f"/v1/rules/{rule_id}/health")
    with ui.element("section").classes("t-panel").props('aria-labelledby="health"'):
        link = f"<a href='{address}'><code>{address}</code></a>"
        all_stores = f"<p class='t-foot'>Of all its stores: {link}</p>"
        html(f"<h2 id='health'>Can it be judged?</h2>{text}{all_stores}")


def _show_list(rules: Sequence[RuleVersion]) -> None:
    # Retired rules stay listed because their alerts are still shown.
    living = [version for version in rules if not version.retired]
    others = [version for version in rules if version.retired]
    for name, title, versions in (("live", "In force", living), ("retired", "Retired", others)):
        with ui.element("section").classes("t-panel").props(f'aria-labelledby="{name}"'):
            html(f"<h2 id='{name}'>{title}</h2>")
            if not versions:
                html("<p class='t-sub'>None.</p>")
                continue
            region = f"class='t-scroll' role='region' aria-labelledby='{name}' tabindex='0'"
            html(f"<div {region}>{rule_table(versions)}</div>")
    html(
        f"<p class='t-foot'><a href='{new_rule_address()}'>Write a new rule</a>, or keep them as"
        " files: <code>tally rules apply FILE</code>. The same by HTTP: /v1/rules</p>"
    )


def _show_versions(rule_id: str, versions: Sequence[RuleVersion], edit: str) -> None:
    address = escape(f"/v1/rules/{rule_id}/versions")
    with ui.element("section").classes("t-panel").props('aria-labelledby="versions"'):
        html(
            "<h2 id='versions'>Versions</h2>"
            "<div class='t-scroll' role='region' aria-labelledby='versions' tabindex='0'>"
            f"{version_table(versions)}</div>"
            f"<p class='t-known'><a href='{escape(edit)}'>Edit this rule</a></p>"
            "<p class='t-foot'>The same by HTTP:"
            f" <a href='{address}'><code>{address}</code></a></p>"
        )


def show_rule_figure(drawn: RuleFigure, rule: Rule, chosen: StoreChoice) -> None:
    """Draw a rule's chart in a store, how much of it is known, and a table of its episodes."""
    title = "What it calls for, and what was published"
    with ui.element("section").classes("t-panel").props(f'aria-label="{title}"'):
        subtitle = escape(f"{condition_text(rule)}, in {chosen.label}")
        html(f"<h2>{title}</h2><p class='t-sub'>{subtitle}</p>")
        if drawn.simulated is None:
            html(
                "<p class='t-known' data-state='missing'>Nothing: it is not judged, is not about"
                " this store, or the store has never sent all that it reads.</p>"
            )
            return
        zone = chosen.store.zone
        style = UnitStyle(_unit(rule), chosen.store.currency)
        # A rule about single articles has nothing to draw if no article calls for an alert.
        if drawn.simulated.values:
            # The chart needs a description, because a canvas has no text of its own.
            chart(rule_chart(drawn, style, zone), f"{title}: {describe_rule(drawn)}")
        state = "complete" if _is_known(drawn) else "partial"
        known = escape(_certainty_text(drawn))
        html(f"<p class='t-known' data-known data-state='{state}'>{known}</p>")
        # The table makes the episodes available to readers who cannot see the chart.
        if drawn.simulated.episodes:
            html(
                "<div class='t-scroll' role='region' aria-label='Episodes' tabindex='0'>"
                f"{episode_table(drawn, rule, zone, chosen.store.currency)}</div>"
            )


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
