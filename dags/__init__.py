"""Scheduled workflows, one per file; each task starts a batch-layer job as a process."""
