"""How far the data has come, told as records: the time that alerts are judged by."""
