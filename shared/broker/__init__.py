"""The broker: a port, its topology and ladder as values, an adapter for RabbitMQ and one in memory."""
