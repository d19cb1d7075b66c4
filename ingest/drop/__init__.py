"""The file drop: what is put into a folder goes to the gateway, and is filed."""
