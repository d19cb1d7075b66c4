"""The settings of Tally and of its parts, from the environment."""
