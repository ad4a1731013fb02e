"""Population based training on Ray Tune's scheduler itself, with trials that take no time."""

from types import SimpleNamespace

import pytest
from depth import examples
from hypothesis import example, given
from hypothesis import strategies as st

from envoi.integrations.rllib import RunFolder, Settings
from envoi.integrations.rllib.trial_state import TrialState

pytest.importorskip("ray")

from ray.tune.execution.tune_controller import TuneController
from ray.tune.schedulers import PopulationBasedTraining

from envoi.integrations.rllib.recorder import Recorder
from envoi.integrations.rllib.schedulers import RETURN, STEPS, make_scheduler

STOP_STEPS = 6000


class Trial:
    """A trial of Tune's, of which schedulers see this much; its checkpoint is the number of its steps."""

    PENDING, RUNNING, PAUSED, TERMINATED, ERROR = "PENDING", "RUNNING", "PAUSED", "TERMINATED", "ERROR"

    def __init__(self, index, length):
        self.trial_id, self.status, self.experiment_tag = f"x_{index}", self.PENDING, str(index)
        self.config, self.length = {"seed": index, "lr": 1.0}, length
        self.temporary_state = SimpleNamespace(saving_to=None)
        self.manager = SimpleNamespace(
            _latest_checkpoint_result=SimpleNamespace(checkpoint=(0,)),
            checkpoint_config=SimpleNamespace(num_to_keep=4),
        )
        self.run_metadata = SimpleNamespace(checkpoint_manager=self.manager)
        self.set_config, self.set_experiment_tag = self.config.update, lambda tag: None

    @property
    def checkpoint(self):
        return self.manager._latest_checkpoint_result.checkpoint

    @property
    def is_saving(self):
        return self.temporary_state.saving_to is not None

    def is_finished(self):
        return self.status in (self.TERMINATED, self.ERROR)

    def set_location(self, _):
        pass

    def save(self, steps):
        self.manager._latest_checkpoint_result = SimpleNamespace(checkpoint=(steps,))


class Tune:
    """Runs trials as `TuneController` does: as many at a time as there are slots, until the recorder stops them."""

    search_alg = None

    def __init__(self, scheduler, recorder, trials, slots):
        self.scheduler, self.recorder, self.trials, self.slots = scheduler, recorder, trials, slots
        self.steps = {}
        for trial in trials:
            scheduler.on_trial_add(self, trial)

    def get_trials(self):
        return self.trials

    def get_live_trials(self):
        return [trial for trial in self.trials if not trial.is_finished()]

    def pause_trial(self, trial, should_checkpoint=True):
        if should_checkpoint:
            trial.save(self.steps[trial])
        trial.status = Trial.PAUSED

    def _schedule_trial_save(self, trial, result=None):
        trial.save(self.steps[trial])
        return trial.checkpoint

    def run(self, fails=None):
        """Runs all trials.

        Args:
            fails: Takes a trial; returns True if it fails now.
        """
        # Trials that take another's checkpoint over may begin some intervals again.
        for _ in range(3 * sum(STOP_STEPS // trial.length + 1 for trial in self.trials)):
            if not self.get_live_trials():
                return
            while len(self._running()) < self.slots:
                chosen = self.scheduler.choose_trial_to_run(self)
                if chosen is None:
                    break
                chosen.status, self.steps[chosen] = Trial.RUNNING, chosen.checkpoint[0]
            assert self._running(), "all trials wait for one another"
            for trial in self._running():
                if trial.status == Trial.RUNNING:  # not paused since by another's result
                    self._train(trial, fails)
        raise AssertionError("the trials do not end")

    def _running(self):
        return [trial for trial in self.trials if trial.status == Trial.RUNNING]

    def _train(self, trial, fails):
        if fails is not None and fails(trial):
            trial.status = Trial.ERROR
            self.scheduler.on_trial_error(self, trial)
            return
        self.steps[trial] += trial.length
        steps = self.steps[trial]
        result = {
            "config": trial.config,
            "training_iteration": steps // trial.length,
            "num_env_steps_sampled_lifetime": steps,
            "time_this_iter_s": 1.0,
            "time_total_s": steps / 100,
            "env_runners": {"episode_returns": [float(trial.experiment_tag)] * 20},
        }
        if self.recorder(trial.trial_id, result):
            self.scheduler.on_trial_complete(self, trial, result)
            trial.status = Trial.TERMINATED
        elif (decision := self.scheduler.on_trial_result(self, trial, result)) == "PAUSE":
            self.pause_trial(trial)
        else:
            assert decision in ("CONTINUE", "NOOP")


def population(path, lengths, slots, begun=None):
    """Returns Tune with a trial per length of an iteration, their recorder, and a trial's steps before a resumption."""
    settings = Settings(
        "envoi:catch", set={"lr": "log(1e-5,1e-3)"}, samples=len(lengths), scheduler="pbt", stop_steps=STOP_STEPS
    )
    states = {index: TrialState(env_steps=steps) for index, steps in enumerate(begun or [0] * len(lengths))}
    recorder = Recorder(settings, RunFolder(path), states, None, SimpleNamespace(asked=False))
    scheduler = make_scheduler(settings, recorder, SimpleNamespace(entries=dict))
    trials = [Trial(index, length) for index, length in enumerate(lengths)]
    for trial, state in zip(trials, states.values(), strict=True):
        trial.save(state.env_steps)
    return Tune(scheduler, recorder, trials, slots), recorder


def test_trials_are_compared_at_each_interval_though_iterations_do_not_divide_it(tmp_path):
    tune, recorder = population(tmp_path, [512] * 4, slots=2)
    tune.run()
    assert {state.env_steps for state in recorder._live.values()} == {6144}
    # The first iterations to end after 750 steps, 1,500, 2,250, …
    assert compared(recorder) == [1024, 1536, 2560, 3072, 4096, 4608, 5632]


def compared(recorder):
    """Returns the steps after which trials were compared."""
    return sorted({change["env_steps"] for state in recorder._live.values() for change in state.perturbations})


def test_rays_own_scheduler_leaves_all_trials_waiting():
    class Plain(PopulationBasedTraining):
        def on_trial_result(self, tune_controller, trial, result):
            held = {RETURN: 1.0 + float(trial.experiment_tag), STEPS: result["num_env_steps_sampled_lifetime"]}
            return super().on_trial_result(tune_controller, trial, result | held)

    scheduler = Plain(
        time_attr=STEPS, metric=RETURN, mode="max", perturbation_interval=750, custom_explore_fn=dict,
        log_config=False, synch=True,
    )  # fmt: skip
    tune = Tune(scheduler, lambda _, result: False, [Trial(index, 512) for index in range(4)], slots=2)
    with pytest.raises(AssertionError, match="all trials wait"):
        tune.run()
    assert set(tune.steps.values()) == {3072}, "Ray has mended this; schedulers._Pbt can do without its own intervals"


def test_trial_that_fails_while_others_wait_for_it_does_not_stop_them(tmp_path):
    tune, recorder = population(tmp_path, [512] * 4, slots=4)
    tune.run(fails=lambda trial: trial is tune.trials[3] and tune.steps[trial] == 1024)
    ends = [state.env_steps for state in recorder._live.values()]
    assert ends == [6144, 6144, 6144, 1024]
    # The others were compared when it failed, as they had waited for it since step 1,536.
    assert compared(recorder) == [1024, 1536, 2560, 3072, 4096, 4608, 5632]


@examples(60)
@example([1, 1, 1], 1, [0] * 6, 0)  # 18,000 iterations one after the other
@given(
    st.lists(st.integers(1, 3000), min_size=2, max_size=6),
    st.integers(1, 4),
    st.lists(st.integers(0, 5999), min_size=6, max_size=6),
    st.integers(0, 20_000),
)
def test_every_trial_ends_at_its_goal(tmp_path_factory, lengths, slots, begun, failing):
    tune, recorder = population(tmp_path_factory.getbasetemp() / "population", lengths, slots, begun[: len(lengths)])
    failed = tune.trials[failing % len(lengths)]
    tune.run(fails=lambda trial: trial is failed and tune.steps[trial] > failing)
    for index, trial in enumerate(tune.trials):
        assert trial.status == Trial.ERROR or recorder._live[index].env_steps >= STOP_STEPS


def test_trial_that_takes_another_over_while_it_is_saved_is_not_stopped_later(tmp_path):
    """`TuneController` would note to stop it, and does so after the next checkpoint but one."""
    tune, _ = population(tmp_path, [512, 512], slots=2)
    poor, good = tune.trials
    resolved = []
    controller = SimpleNamespace(
        _cached_trial_decisions={poor.trial_id: "PAUSE"},
        _trial_to_actor={},
        _set_trial_status=lambda trial, status: setattr(trial, "status", status),
    )
    for name in ("pause_trial", "_schedule_trial_pause", "_schedule_trial_stop"):
        setattr(controller, name, getattr(TuneController, name).__get__(controller))
    state = tune.scheduler._trial_state
    for trial, score in ((poor, 0.0), (good, 1.0)):
        trial.status, state[trial].last_score = Trial.RUNNING, score
    state[good].last_checkpoint = (1024,)
    stop = controller._schedule_trial_stop
    controller._trial_to_actor = {poor: None}  # `_schedule_trial_pause` looks for it
    controller._schedule_trial_stop = lambda trial: (controller._trial_to_actor.clear(), stop(trial))

    poor.temporary_state.saving_to = SimpleNamespace(resolve=lambda: resolved.append(poor))
    tune.scheduler._exploit(controller, poor, good)
    assert controller._cached_trial_decisions == {}
    assert resolved == [poor]
    assert (poor.status, poor.checkpoint) == (Trial.PAUSED, (1024,))

    poor.status, controller._trial_to_actor = Trial.RUNNING, {poor: None}
    poor.temporary_state.saving_to = SimpleNamespace(resolve=lambda: None)
    PopulationBasedTraining._exploit(tune.scheduler, controller, poor, good)
    assert controller._cached_trial_decisions == {poor.trial_id: "STOP"}, "Ray has mended this; _Pbt._exploit can go"
