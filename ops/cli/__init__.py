"""The command line: one module for each verb group, each with a typer.Typer named `group`."""
