"""Sightings of devices by WiFi access points."""
