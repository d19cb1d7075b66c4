"""From the data of an earlier release to those of this one."""
