"""Rules of alerts in the real topic."""
