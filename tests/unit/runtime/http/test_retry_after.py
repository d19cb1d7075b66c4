"""The header Retry-After, as other programs write it."""

import pytest

from runtime.outbound.caller import parse_retry_after

NOW = 1_795_694_400.7


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120", 120.0),
        (" 7 ", 7.0),
        ("0", 0.0),
        ("-5", None),
        ("1.5", None),
        ("9" * 5_000, None),
        ("٧", None),
        ("", None),
        ("soon", None),
        ("Thu, 26 Nov 2026 12:02:00 GMT", 119.3),
        ("Thu, 26 Nov 2026 11:00:00 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 251_562_369_598.3),
        # A date that ends in -0000 has no zone: it is UTC.
        ("Thu, 26 Nov 2026 12:02:00 -0000", 119.3),
        ("Fri, 31 Feb 2026 00:00:00 GMT", None),
    ],
)
def test_retry_after_is_a_number_or_an_instant(text: str, seconds: float | None) -> None:
    found = parse_retry_after(text, NOW)

    assert found is None or seconds is not None
    assert (found is None) == (seconds is None)
    if seconds is not None and seconds < 10**6:
        assert found == pytest.approx(seconds, abs=0.01)
