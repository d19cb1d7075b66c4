"""Disclosure control: which numbers of people an answer may show."""
