"""Migrations, as Django makes them of the models."""
