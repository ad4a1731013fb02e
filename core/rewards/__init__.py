"""Rewarders and terminations: functions of a transition as values that can be composed and compared."""
