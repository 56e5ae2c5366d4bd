"""What a server in development tells its page: docs/design/0007-inspector.md."""
