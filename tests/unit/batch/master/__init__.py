"""The master dataset on the disk: its files, extent, maintenance and verification."""
