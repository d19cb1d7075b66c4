"""What every process shares: heartbeat, end of a job, web server."""
