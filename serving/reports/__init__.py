"""Reports: a metric over some days, beside as many days before."""
