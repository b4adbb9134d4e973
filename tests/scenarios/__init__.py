"""What failed in other job systems, tried on this one: scenario → tests → result (docs/scenarios.md)."""
