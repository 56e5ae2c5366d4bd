"""What operators see of a server: spans and figures for OpenTelemetry, and figures for Prometheus."""
