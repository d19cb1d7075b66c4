"""Alerts acknowledged, silenced and resolved on their pages, in Chromium."""

from typing import Any

from tests.support import http
from tests.support.alerts.alert_suite import LATE, OPEN

INBOX = "/alerts?days=7&until=2026-11-23"


def written(address: str) -> list[dict[str, Any]]:
    """The actions that the server has written since it was asked last."""
    found: list[dict[str, Any]] = http.post(f"{address}/written").json()
    return found


def open_page(tab: Any, address: str, path: str) -> None:
    written(address)
    tab.goto(address + path)
    tab.wait_for_selector("h2:has-text('Acknowledge, silence or resolve')")


def test_an_alert_is_acknowledged(tab: Any, address: str) -> None:
    open_page(tab, address, f"/alerts/{OPEN.alert_id}")

    tab.get_by_label("Your name").fill("anna")
    tab.get_by_role("button", name="Acknowledge").click()
    tab.wait_for_selector("[data-acted]:has-text('Acknowledged by anna')")

    [record] = written(address)
    assert (record["is"], record["alert_id"], record["by"]) == ("ack", OPEN.alert_id, "anna")


def test_one_of_the_inbox_is_silenced(tab: Any, address: str) -> None:
    open_page(tab, address, INBOX)

    tab.get_by_label("Open alert").click()
    tab.locator(".q-item", has_text=f"{LATE.rule_id} ·").filter(has_text="406").first.click()
    tab.get_by_role("button", name="Silence").click()
    tab.wait_for_selector("[data-acted]:has-text('Silenced for 1 hour')")

    [record] = written(address)
    assert (record["is"], record["store_id"]) == ("snooze", "406")


def test_resolving_asks_for_a_reason(tab: Any, address: str) -> None:
    open_page(tab, address, f"/alerts/{OPEN.alert_id}")

    tab.get_by_role("button", name="Resolve").click()
    tab.get_by_role("button", name="Resolve it").click()
    tab.wait_for_selector("text=Write the reason first.")
    assert written(address) == []
    tab.get_by_label("Reason").fill("The till was being repaired.")
    tab.get_by_role("button", name="Resolve it").click()
    tab.wait_for_selector("[data-acted]:has-text('Resolved')")

    [record] = written(address)
    assert (record["alert_id"], record["because"]) == (
        OPEN.alert_id,
        "The till was being repaired.",
    )


def test_a_dialog_that_is_cancelled_writes_nothing(tab: Any, address: str) -> None:
    open_page(tab, address, f"/alerts/{OPEN.alert_id}")

    tab.get_by_role("button", name="Resolve").click()
    tab.get_by_role("button", name="Cancel").click()
    tab.wait_for_selector(".q-dialog", state="hidden")

    assert written(address) == []
