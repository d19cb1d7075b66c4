"""The HTTP API (reference: the OpenAPI text at /openapi.json)."""
