"""A store's days: instants, opening hours, holidays, fiscal weeks, and like-for-like days."""
