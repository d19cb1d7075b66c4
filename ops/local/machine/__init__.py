"""The machine: its requirements, and the JVM parts in the user's cache."""
