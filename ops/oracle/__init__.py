"""The expected results, computed without any code of the pipeline.

This package imports nothing of Tally except files of schemas/.
"""
