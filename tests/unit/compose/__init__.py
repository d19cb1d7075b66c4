"""docker-compose.yml and its Dockerfile, checked without an engine."""
