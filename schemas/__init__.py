"""Every stored shape of Tally as a file, and the loader that reads them."""
