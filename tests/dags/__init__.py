"""The DAG files as Airflow sees them."""
