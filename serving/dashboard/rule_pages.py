"""The page of the rules, and that of one: its versions, and what it calls for in a store."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from html import escape
from http import HTTPStatus

from nicegui import ui

from runtime.sources import FAMILIES
from serving.dashboard.addresses import (
    new_rule_address,
    rule_address,
    rule_edit_address,
    rules_address,
)
from serving.dashboard.frame import (
    Frame,
    chart,
    html,
    keep_current,
    log_unreachable,
    say,
    say_unreachable,
    show_frame,
)
from serving.dashboard.period import Period
from serving.dashboard.rule_chart import describe_rule, rule_chart
from serving.dashboard.rule_markup import (
    condition_text,
    episode_table,
    health_text,
    rule_table,
    version_table,
)
from serving.dashboard.rule_source import DrawnRule, RuleFigureSource
from serving.dashboard.source import StoreChoice
from serving.dashboard.unit_style import UnitStyle
from serving.query import catalogue
from tally.alerts.rule import Rule, RuleVersion
from tally.errors import UnknownName, ViewsUnreachable

REFRESH_SECONDS = 120.0


async def show_rules(source: RuleFigureSource, chosen: StoreChoice, period: Period) -> None:
    """The page of all rules."""
    frame = Frame("rules", "Rules", period, lambda _store, _of: rules_address(), chosen)
    show_frame(replace(frame, told="What calls for an alert"))
    with ui.element("main").classes("t-body"):
        await keep_current(source.rules, _show_list, REFRESH_SECONDS)


async def show_rule(
    source: RuleFigureSource,
    rule_id: str,
    stores: Sequence[StoreChoice],
    chosen: StoreChoice,
    period: Period,
) -> None:
    """The page of one rule in a store; of an id that nobody knows the page says so."""

    def address(store_id: str, of: Period) -> str:
        return rule_address(rule_id, of, store_id)

    frame = Frame("rules", rule_id[:64], period, address, chosen, stores)
    try:
        versions = await source.versions(rule_id)
    except UnknownName:
        ui.context.client.status_code = HTTPStatus.NOT_FOUND
        show_frame(replace(frame, heading="Not found", told="Rules"))
        with ui.element("main"):
            say(f"There is no rule {rule_id[:64]}", "The list above has those that there are.")
        return
    except ViewsUnreachable as error:
        log_unreachable(error)
        show_frame(replace(frame, told="Rules"))
        with ui.element("main"):
            say_unreachable()
        return
    show_frame(frame)
    with ui.element("main").classes("t-body"):
        # By the newest version's words; each window is judged by its own.
        draw = partial(show_drawn, rule=versions[-1].rule, chosen=chosen)
        load = partial(source.drawn, rule_id, chosen.store, period)
        await keep_current(load, draw, REFRESH_SECONDS)
        # A rule that is blind looks like one that has nothing to say.
        ask = partial(_answered_health, source, rule_id, chosen)
        await keep_current(ask, partial(_show_health, rule_id), REFRESH_SECONDS)
        edit = rule_edit_address(rule_id, period, chosen.store.store_id)
        _show_versions(rule_id, versions, edit)


async def _answered_health(source: RuleFigureSource, rule_id: str, chosen: StoreChoice) -> str:
    return health_text(await source.health(rule_id, chosen.store), chosen.store.zone)


def _show_health(rule_id: str, text: str) -> None:
    address = escape(f"/v1/rules/{rule_id}/health")
    with ui.element("section").classes("t-panel").props('aria-labelledby="health"'):
        link = f"<a href='{address}'><code>{address}</code></a>"
        all_stores = f"<p class='t-foot'>Of all its stores: {link}</p>"
        html(f"<h2 id='health'>Can it be judged?</h2>{text}{all_stores}")


def _show_list(rules: Sequence[RuleVersion]) -> None:
    # Retired ones stay listed: their alerts are still shown.
    living = [one for one in rules if not one.retired]
    others = [one for one in rules if one.retired]
    for name, title, some in (("live", "In force", living), ("retired", "Retired", others)):
        with ui.element("section").classes("t-panel").props(f'aria-labelledby="{name}"'):
            html(f"<h2 id='{name}'>{title}</h2>")
            if not some:
                html("<p class='t-sub'>None.</p>")
                continue
            region = f"class='t-scroll' role='region' aria-labelledby='{name}' tabindex='0'"
            html(f"<div {region}>{rule_table(some)}</div>")
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


def show_drawn(drawn: DrawnRule, rule: Rule, chosen: StoreChoice) -> None:
    """The chart of a rule in a store, what is known of it, and its episodes."""
    title = "What it calls for, and what was told"
    with ui.element("section").classes("t-panel").props(f'aria-label="{title}"'):
        told = escape(f"{condition_text(rule)}, in {chosen.label}")
        html(f"<h2>{title}</h2><p class='t-sub'>{told}</p>")
        if drawn.simulated is None:
            html(
                "<p class='t-known' data-state='missing'>Nothing: it is not judged, is not about"
                " this store, or the store has never sent all that it reads.</p>"
            )
            return
        zone = chosen.store.zone
        style = UnitStyle(_unit(rule), chosen.store.currency)
        # Of articles that are all there is none to draw.
        if drawn.simulated.values:
            # With its words: a canvas says nothing by itself.
            chart(rule_chart(drawn, style, zone), f"{title}: {describe_rule(drawn)}")
        state = "complete" if _is_known(drawn) else "partial"
        known = escape(_known_text(drawn))
        html(f"<p class='t-known' data-known data-state='{state}'>{known}</p>")
        # A chart alone says nothing to who does not see it.
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


def _is_known(drawn: DrawnRule) -> bool:
    assert drawn.simulated is not None
    return drawn.simulated.is_sure and not drawn.simulated.incomplete


def _known_text(drawn: DrawnRule) -> str:
    """What of it is sure: it is judged as if the rule had always been in force."""
    assert drawn.simulated is not None
    found = describe_rule(drawn)
    # Counted, and not left to the grey of the chart.
    missing = sum(one.windows for one in drawn.simulated.incomplete)
    told = [f"As if the rule had always been in force: {found}."]
    subjects = {one.subject for one in drawn.simulated.episodes}
    if left := subjects - drawn.simulated.values.keys():
        told.append(f"Of {len(left):,} more the table alone has the episodes.")
    if missing:
        told.append(f"{missing:,} quarter hours are not served complete, and raise nothing.")
    if not drawn.simulated.is_sure:
        told.append("An episode may have begun before: the days before do not show it.")
    return " ".join(told)
