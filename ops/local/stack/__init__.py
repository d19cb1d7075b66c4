"""Local services from registry packages: fetched, started, watched and stopped on loopback."""
