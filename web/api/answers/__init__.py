"""The shapes of the API's answers, as OpenAPI publishes them."""
