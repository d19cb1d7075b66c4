"""Generators of the pages in docs/generated, which are made from the code."""
