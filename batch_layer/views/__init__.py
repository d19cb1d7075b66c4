"""Views rebuilt from one version of the master dataset and published by one pointer flip."""
