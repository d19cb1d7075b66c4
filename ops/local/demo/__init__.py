"""The demo: commands that take one year of real receipts through the pipeline, and audit it."""
