"""Scheduled workflows, one a file; each task starts a job of the batch layer as a process."""
