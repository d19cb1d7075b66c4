"""The command line: one module for each verb group, each with `register(app)`."""
