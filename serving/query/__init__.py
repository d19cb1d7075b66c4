"""A question, from its parameters to its cells: what API, dashboard, reports and alerts stand
on; no HTTP."""
