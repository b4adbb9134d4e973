"""Traces of the model with simulated time: a scheduler chooses among the model's own moves."""
