"""Numbers of people: visits, presences, small cells, and personal data in texts."""
