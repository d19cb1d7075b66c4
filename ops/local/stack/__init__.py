"""Local services from registry packages: they are fetched, started, watched and stopped here."""
