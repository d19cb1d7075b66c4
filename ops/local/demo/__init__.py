"""The demo: the whole pipeline on one year of real receipts, and the audit of its results.

Its steps are commands of the command line.
"""
