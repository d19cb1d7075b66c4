"""A store's days: their instants, opening hours, holidays, fiscal weeks, and what each is like."""
