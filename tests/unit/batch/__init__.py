"""The batch layer without Spark."""
