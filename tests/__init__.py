"""The tests of Tally; the folder is the tier."""
