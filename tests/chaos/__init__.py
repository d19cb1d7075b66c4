"""Long runs: the whole year, kills, zombies; `make test-chaos`."""
