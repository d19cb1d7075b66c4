"""Views rebuilt from one version of the master dataset, published by one flip of the pointer."""
