"""Monte Carlo tree search in the true game: no network, no learned model.

The state of the game in JAX is the state of the search (mctx, Gumbel MuZero). Each move is searched
with real rewards, by a prior that goes by what a placement saves; beyond the search a position is
worth nothing, which is the place for a value of your own.

    python mcts.py --simulations 16
"""

import argparse

import jax
import jax.numpy as jnp
import mctx
import numpy as np

import learned_mapping as lm
from learned_mapping.budget import Budget
from learned_mapping.mmap.bench import bound_of, load
from learned_mapping.mmap.searches.search import Search

env = lm.mmap.env
STEEP = 300.0  # what a saving of all there is adds to the odds of a placement


def search(program, games, simulations, seed):
    """Actions [games, buffers] of games played side by side, each move of them searched, and their
    returns. Inside `env.exact`."""
    game, possible_s = env.env_program(program), program.possible_saving_s
    fresh = env.decide(game, env.reset(game, env.capacity_for(program)), jnp.asarray(-1))
    states = jax.tree.map(lambda leaf: jnp.stack([leaf] * games), fresh)
    decide = jax.vmap(env.decide, (None, 0, 0))

    def prior(states):
        position = states.position
        odds = jnp.log1p(STEEP * jnp.maximum(position.reward_s, 0.0) / possible_s)
        return jnp.where(position.legal, odds, -1e9).astype(jnp.float32)

    def saved(after, before):
        gain_s = after.position.saved_s - before.position.saved_s
        return (gain_s / possible_s).astype(jnp.float32)

    def recurrent(_, key, action, states):
        after = decide(game, states, action)
        discount = jnp.where(after.over, 0.0, 1.0).astype(jnp.float32)
        seen = {"prior_logits": prior(after), "value": jnp.zeros(games, jnp.float32)}
        reward = saved(after, states)
        return mctx.RecurrentFnOutput(reward=reward, discount=discount, **seen), after

    @jax.jit
    def move(states, key):
        seen = {"prior_logits": prior(states), "value": jnp.zeros(games, jnp.float32)}
        root = mctx.RootFnOutput(embedding=states, **seen)
        illegal = ~states.position.legal & ~states.over[:, None]
        policy = mctx.gumbel_muzero_policy(
            (), key, root, recurrent, simulations, invalid_actions=illegal
        )
        return decide(game, states, jnp.where(states.over, -1, policy.action))

    key = jax.random.PRNGKey(seed)
    while not bool(states.over.all()):
        key, draw = jax.random.split(key)
        states = move(states, draw)
    assert not bool(states.overflow.any())
    return np.asarray(states.position.action), np.asarray(states.position.saved_s) / possible_s


def mapping_of(program, actions):
    """The mapping of a game's actions."""
    game = Search(program, Budget(samples=1))
    game.play_actions(actions.astype(np.int64))
    return game.mapping()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="alexnet_train_batch_32")
    parser.add_argument("--simulations", type=int, default=16)
    parser.add_argument("--games", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    program = load(options.program)
    with env.exact():
        actions, returns = search(program, options.games, options.simulations, options.seed)
    verdict = lm.mmap.validate(program, mapping_of(program, actions[returns.argmax()]), exact=True)
    assert verdict.valid, verdict
    tuned = lm.mmap.solve(program, "greedy-tuned", seed=options.seed).metrics["return"]
    print(f"best of {options.games} games {verdict.costs['return']:.3f}, mean {returns.mean():.3f}")
    print(f"greedy-tuned {tuned:.3f}; no mapping is above {bound_of(program):.3f}")
