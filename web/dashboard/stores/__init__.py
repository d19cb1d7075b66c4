"""The pages of stores and of their reports."""
