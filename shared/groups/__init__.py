"""Groups: jobs that belong together, and a job that runs once when all of them have ended."""
