"""Train TF-Agents' DQN on catch, whose lanes are one batched environment. Needs TensorFlow: `make test-tf` sets it up.

python examples/tf_agents_dqn.py
"""

import warnings

import tensorflow as tf
from tf_agents.agents.dqn import dqn_agent
from tf_agents.environments import tf_py_environment
from tf_agents.networks import sequential
from tf_agents.replay_buffers import tf_uniform_replay_buffer
from tf_agents.trajectories import trajectory

import envoi
from envoi.adapters import load, to_tf_agents

LANES, ACTIONS = 32, 3


def make_agent(env):
    """A DQN with a hidden layer."""
    layers = [
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(64, "relu", kernel_initializer=tf.keras.initializers.HeUniform(seed=0)),
        tf.keras.layers.Dense(ACTIONS, kernel_initializer=tf.keras.initializers.HeUniform(seed=1)),
    ]
    network, optimizer = sequential.Sequential(layers), tf.keras.optimizers.Adam(1e-3)
    settings = {"epsilon_greedy": 0.1, "target_update_period": 50, "gamma": 0.99}
    agent = dqn_agent.DqnAgent(env.time_step_spec(), env.action_spec(), network, optimizer, **settings)
    agent.initialize()
    return agent


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message=".*narrowed")  # rewards are float32 there
    tf.random.set_seed(0)
    env = tf_py_environment.TFPyEnvironment(to_tf_agents(envoi.batch(load("envoi:catch"), LANES), seed=0))
    agent = make_agent(env)
    replay = tf_uniform_replay_buffer.TFUniformReplayBuffer(agent.collect_data_spec, LANES, max_length=200)
    pairs = iter(replay.as_dataset(sample_batch_size=256, num_steps=2).prefetch(2))
    act, train = tf.function(agent.collect_policy.action), tf.function(agent.train)

    step = env.reset()
    print("episodes   return")
    for _ in range(5):
        ended, earned = 0, 0.0
        for number in range(150):
            action = act(step)
            after = env.step(action.action)
            replay.add_batch(trajectory.from_transition(step, action, after))
            if number:
                train(next(pairs)[0])
            ended, earned = ended + int(after.is_last().numpy().sum()), earned + float(after.reward.numpy().sum())
            step = after
        print(f"{ended:8}   {earned / ended:+.2f}")
