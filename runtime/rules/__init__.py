"""The rules of alerts as processes have them: read from files, and from their topic."""
