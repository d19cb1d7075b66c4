"""The command lines of docker-compose.yml, run on this machine."""
