"""Steps as programs: the stages that layers contribute, and the engines that run them for one lane and for many."""
