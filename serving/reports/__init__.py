"""Reports: a metric over some days, compared with as many days before."""
