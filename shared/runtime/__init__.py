"""What every service needs to run: time, settings, logs, a clean end."""
