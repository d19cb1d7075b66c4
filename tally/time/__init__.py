"""Time: instants, windows, local days, opening hours and calendars."""
