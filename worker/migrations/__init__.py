"""Data migrations: tasks that go over many rows in small fenced transactions."""
