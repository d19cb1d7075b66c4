"""What an installation sets for ingest: rules, devices, currencies and clocks of stores."""
