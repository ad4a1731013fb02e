"""Rewarders, terminations, and functions of transitions that draw random numbers."""
