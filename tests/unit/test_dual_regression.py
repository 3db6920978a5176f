"""The in-context regression bench: its prompts, its pairing by seed, its table."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch
from scipy import stats

from topic_probes import dual

SMALL = {"n_steps": 30, "batch_size": 16, "n_test": 200, "n_seeds": 3, "d_x": 2, "n_demonstrations": 5, "d_head": 4}


def small_bench(**changes):
    options = {"tasks": ["linear"], "a": [0.5], "augmentations": ["linear", "mlp"], "b": [0.2], "r": [1, 3]}
    return dual.regression_bench(**{**options, **SMALL, **changes})


@pytest.mark.parametrize(
    ("task", "feature"),
    [("linear", lambda x: x), ("trigonometric", lambda x: np.cos(np.pi / 2 * x)), ("exponential", np.exp)],
)
def test_prompts_follow_one_function_each(task, feature):
    """Least squares on the demonstrations of a prompt finds w, and w gives the answer; answers have variance 1."""
    prompts, answers = dual.regression_prompts(task, 4000, 8, 3, torch.Generator().manual_seed(0))
    assert prompts.shape == (4000, 9, 4)
    assert (prompts[:, -1, -1] == 0).all()
    assert prompts[..., :-1].abs().max() <= 1
    for prompt, answer in zip(prompts[:5].double().numpy(), answers[:5].double().numpy(), strict=True):
        w = np.linalg.lstsq(feature(prompt[:-1, :-1]), prompt[:-1, -1], rcond=None)[0]
        assert feature(prompt[-1, :-1]) @ w == pytest.approx(answer, abs=1e-3)
    assert answers.square().mean().item() == pytest.approx(1, abs=0.15)
    assert answers.mean().item() == pytest.approx(0, abs=0.1)


def test_settings_start_alike_and_see_the_same_prompts():
    """With a = 0 and b = 0 every seed ends where the plain model does."""
    runs = small_bench(a=[0.0], b=[0.0], augmentations=[]).runs
    np.testing.assert_allclose(runs["test_error"], runs["plain_error"], rtol=1e-5)
    assert runs["test_error"].nunique() > 3 - 1
    changed = small_bench(a=[0.9], b=[0.9], augmentations=["linear"]).runs
    changed = changed[changed["variant"] != "plain"]
    assert (np.abs(changed["test_error"] / changed["plain_error"] - 1) > 1e-4).all()


def test_a_seed_trained_among_others_is_the_seed_trained_alone():
    """Copies share nothing: the second of three seeds, by itself, gives the same errors."""
    together, alone = small_bench().runs, small_bench(n_seeds=1, seed=1).runs
    picked = together[together["seed"] == 1].reset_index(drop=True)
    np.testing.assert_allclose(picked["test_error"], alone["test_error"], rtol=1e-4)
    assert list(picked["setting"]) == list(alone["setting"])


def test_the_table_has_means_and_intervals_over_seeds():
    """Student's t of scipy over seeds, and the change paired by seed."""
    bench = small_bench()
    table = bench.table(level=0.9).set_index(["variant", "setting"])
    assert list(table.index) == [
        ("plain", ""),
        ("regularised", "a=0.5"),
        ("augmented", "linear"),
        ("augmented", "mlp"),
        ("negative_samples", "b=0.2 r=1"),
        ("negative_samples", "b=0.2 r=3"),
    ]
    runs = bench.runs.set_index(["variant", "setting"]).sort_index()
    for key in table.index:
        errors = runs.loc[key, "test_error"].to_numpy()
        change = errors / runs.loc[("plain", ""), "test_error"].to_numpy() - 1
        for name, sample in (("test_error", errors), ("change", change)):
            row = table.loc[key]
            assert row[name] == pytest.approx(sample.mean(), abs=1e-12)
            if sample.std() > 0:
                low, high = stats.t.interval(0.9, len(sample) - 1, sample.mean(), stats.sem(sample))
                assert (row[f"{name}_low"], row[f"{name}_high"]) == pytest.approx((low, high))
    assert (table["n_seeds"] == 3).all()


def test_one_seed_has_no_interval():
    """NaN, not a width of 0."""
    table = small_bench(n_seeds=1, augmentations=[], b=[]).table()
    assert table[["test_error_low", "test_error_high", "change_low", "change_high"]].isna().all().all()


def test_training_learns_and_leaves_the_global_state_alone():
    """The linear task falls well below what predicting 0 gives; torch's generator and modes stay as they were."""
    state = torch.get_rng_state()
    with torch.no_grad():
        bench = small_bench(n_steps=400, batch_size=32, a=[], augmentations=[], b=[], n_seeds=2)
        assert not torch.is_grad_enabled()
    assert (bench.runs["test_error"] < 0.8).all()
    assert (bench.runs["train_error"] < 0.8).all()
    assert torch.equal(state, torch.get_rng_state())


def test_a_repeat_gives_the_same_numbers():
    """Seeds say all."""
    first, again = small_bench(augmentations=["mlp"]), small_bench(augmentations=["mlp"])
    assert first.runs.equals(again.runs)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"tasks": ["cubic"]}, ValueError, "tasks must be one of"),
        ({"augmentations": ["none"]}, ValueError, "augmentations must be one of"),
        ({"n_seeds": 0}, ValueError, "n_seeds must be at least 1"),
        ({"r": [0]}, ValueError, "r must be at least 1"),
    ],
)
def test_a_wrong_call_is_told_what_is_wrong(changes, error, message):
    """One sentence that names the argument and the rule."""
    # Past the check of annotations, as a user without it would call.
    bench = inspect.unwrap(dual.regression_bench)
    with pytest.raises(error, match=message):
        bench(**{**SMALL, **changes})


def test_a_wrong_level_is_refused():
    """An interval has a level between 0 and 1."""
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        small_bench(a=[], augmentations=[], b=[]).table(level=1.5)
