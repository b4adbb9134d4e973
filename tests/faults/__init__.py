"""The fault suite: real processes, seeded faults, a recorded history, and a checker of it all."""
