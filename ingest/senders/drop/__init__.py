"""Files of a folder that are sent to the gateway."""
