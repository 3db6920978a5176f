"""In-context regression: does a modified attention learn a function from its prompt better than the plain one?

A prompt is N pairs (x, y) and a last x whose y is 0; one layer of softmax attention, trained over many prompts with a
new function each, predicts the last y (Ren and Liu 2024, section 6). Three families, scaled to a y of variance 1:

``linear``         y = w . x
``trigonometric``  y = w . cos(pi x / 2)
``exponential``    y = w . exp(x)

with ``x`` uniform on [-1, 1]^d and ``w`` normal, new for each prompt (sizes chosen here). The
demonstrations are the N pairs; the last token, which the query attends to as well, is the other part.

All settings start from the same weights and see the same prompts, seed by seed, so a change against the plain model is
a difference of pairs. An error of 1 is what predicting 0 gives.

What the table does *not* show: what longer training, more layers or other sizes would give.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn

from .._html import html_table
from .._progress import progress_bar
from .._validation import require_count, require_one_of
from ._modified import augmented_attention, negative_sample_attention, regularised_attention

if TYPE_CHECKING:
    import pandas as pd

RegressionTask = Literal["linear", "trigonometric", "exponential"]
REGRESSION_TASKS: tuple[RegressionTask, ...] = ("linear", "trigonometric", "exponential")
"""Functions to be learned in context: ``w . x``, ``w . cos(pi x / 2)`` and ``w . exp(x)``, scaled to variance 1, with x
uniform on [-1, 1]^d and another normal w in each prompt."""
AUGMENTATIONS = ("linear", "mlp")
"""Learned maps of keys and values: ``x + A x``, or ``x + B gelu(A x)``; both start as the identity."""

_MOMENTS = {
    "linear": 1 / 3,
    "trigonometric": 1 / 2,
    "exponential": float(np.sinh(2) / 2),
}
"""Mean square of one input feature for x uniform on [-1, 1]: of x, cos(pi x / 2), exp(x)."""


@dataclass(frozen=True)
class RegressionBench:
    """Test errors of every setting, task and seed."""

    runs: pd.DataFrame
    """One row per task, setting and seed: task, variant, setting, seed, test_error (mean square, variance of y = 1),
    plain_error (of the plain model of the same seed), train_error (of the last tenth of training)."""
    options: dict[str, Any]
    """What the bench was run with."""

    def table(self, level: float = 0.95) -> pd.DataFrame:
        """Return one row per task and setting, with intervals over seeds (Student's t; NaN for one seed).

        Columns: task, variant, setting, n_seeds, test_error with _low and _high, and change: test error over that of
        the plain model less 1, paired by seed, with _low and _high. Negative is better than plain.

        Raises:
            ValueError: if level is not between 0 and 1.
        """
        import pandas as pd

        if not 0 < level < 1:
            raise ValueError(f"level must be between 0 and 1, got {level!r}")
        rows = []
        for names, group in self.runs.groupby(["task", "variant", "setting"], sort=False):
            change = (group["test_error"] / group["plain_error"] - 1).to_numpy(dtype=np.float64)
            row: dict[str, Any] = dict(zip(("task", "variant", "setting"), cast(tuple, names), strict=True))
            row["n_seeds"] = len(group)
            for name, sample in (("test_error", group["test_error"].to_numpy(dtype=np.float64)), ("change", change)):
                row[name] = sample.mean()
                row[f"{name}_low"], row[f"{name}_high"] = _t_interval(sample, level)
            rows.append(row)
        return pd.DataFrame(rows)

    def _repr_html_(self) -> str:
        """Return :meth:`table`, for a notebook."""
        return html_table(self.table(), f"RegressionBench of {len(self.runs)} runs")


def regression_bench(
    *,
    tasks: Sequence[RegressionTask] = REGRESSION_TASKS,
    a: Sequence[float] = (0.2, 0.5, 1.0),
    augmentations: Sequence[str] = AUGMENTATIONS,
    b: Sequence[float] = (0.1, 0.5),
    r: Sequence[int] = (1, 4),
    n_seeds: int = 5,
    n_demonstrations: int = 15,
    d_x: int = 4,
    d_head: int = 16,
    n_steps: int = 400,
    batch_size: int = 64,
    n_test: int = 2000,
    learning_rate: float = 0.03,
    seed: int = 0,
    progress: bool = False,
) -> RegressionBench:
    """Train one-layer softmax attention on in-context regression, plain and modified, and compare the test errors.

    Args:
        tasks: families of functions.
        a: strengths of the regularised attention.
        augmentations: maps of the augmented attention, of ``"linear"`` and ``"mlp"``.
        b: strengths of the negative samples; every b with every r.
        r: numbers of negative samples.
        n_seeds: independent trainings of each setting, with their own prompts and first weights.
        n_demonstrations: pairs (x, y) in a prompt.
        d_x: width of x.
        d_head: width of keys and queries.
        n_steps: steps of Adam; every batch is new.
        batch_size: prompts in a step.
        n_test: prompts of the test, the same for all settings of a seed.
        learning_rate: of Adam, falling to 0 along half a cosine.
        seed: the first of the seeds ``seed .. seed + n_seeds - 1``.
        progress: whether to show a bar.

    Returns:
        the errors of every run; ``.table()`` gives means and intervals.

    Raises:
        TypeError: if a count is no whole number.
        ValueError: for an unknown task or map, or a count that is too small.
    """
    import pandas as pd

    for task in tasks:
        require_one_of("tasks", task, REGRESSION_TASKS)
    for kind in augmentations:
        require_one_of("augmentations", kind, AUGMENTATIONS)
    counts = {"n_seeds": n_seeds, "n_demonstrations": n_demonstrations, "d_x": d_x, "d_head": d_head}
    for name, count in {**counts, "n_steps": n_steps, "batch_size": batch_size, "n_test": n_test}.items():
        require_count(name, count)
    for negatives in r:
        require_count("r", negatives)
    require_count("seed", seed, minimum=0)
    settings: list[tuple[str, str, dict[str, Any]]] = [("plain", "", {})]
    settings += [("regularised", f"a={strength:g}", {"a": strength}) for strength in a]
    settings += [("augmented", kind, {"augmentation": kind}) for kind in augmentations]
    settings += [
        ("negative_samples", f"b={strength:g} r={negatives}", {"b": strength, "r": negatives})
        for strength in b
        for negatives in r
    ]
    seeds = range(seed, seed + n_seeds)
    rows = []
    steps = [(task, *setting) for task in tasks for setting in settings]
    plain_error = np.zeros(n_seeds)
    for task, variant, setting, changes in progress_bar(
        steps, description="In-context regression", unit="settings", enabled=progress
    ):
        train_error, test_error = _train(
            task, changes, seeds, n_demonstrations, d_x, d_head, n_steps, batch_size, n_test, learning_rate
        )
        if variant == "plain":
            plain_error = test_error
        rows += [
            {
                "task": task,
                "variant": variant,
                "setting": setting,
                "seed": number,
                "test_error": test_error[index],
                "plain_error": plain_error[index],
                "train_error": train_error[index],
            }
            for index, number in enumerate(seeds)
        ]
    options = {
        **counts,
        "n_steps": n_steps,
        "batch_size": batch_size,
        "n_test": n_test,
        "learning_rate": learning_rate,
        "seed": seed,
    }
    return RegressionBench(runs=pd.DataFrame(rows), options=options)


def regression_prompts(
    task: RegressionTask, n_prompts: int, n_demonstrations: int, d_x: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return prompts of (x, y) pairs, and the y that is asked for.

    Args:
        task: the family of functions.
        n_prompts: how many.
        n_demonstrations: pairs before the question.
        d_x: width of x.
        generator: source of randomness; nothing else is drawn from.

    Returns:
        prompts [prompt, n_demonstrations + 1, d_x + 1], the last y of each being 0, and answers [prompt] of
        mean square 1 over functions.

    Raises:
        ValueError: for an unknown task.
    """
    require_one_of("task", task, REGRESSION_TASKS)
    x = torch.rand(n_prompts, n_demonstrations + 1, d_x, generator=generator) * 2 - 1
    w = torch.randn(n_prompts, d_x, generator=generator) / (d_x * _MOMENTS[task]) ** 0.5
    seen: Tensor = {"linear": x, "trigonometric": torch.cos(torch.pi / 2 * x), "exponential": torch.exp(x)}[task]
    y = torch.einsum("ptd,pd->pt", seen, w)
    prompts = torch.cat([x, y.unsqueeze(-1)], dim=-1)
    prompts[:, -1, -1] = 0.0
    return prompts, y[:, -1]


class InContextRegressor(nn.Module):
    """One layer of softmax attention whose last token reads the prompt; many independent copies at once, one per seed.

    ``forward`` takes prompts [copy, prompt, token, d_token] and returns predictions [copy, prompt]. The weights are
    [copy, ...]; nothing is shared between copies, so they train as if alone.
    """

    def __init__(
        self, seeds: Sequence[int], d_token: int, d_head: int, *, augmentation: str | None = None, **changes: Any
    ) -> None:
        super().__init__()
        self.changes = changes
        generators = [torch.Generator().manual_seed(number) for number in seeds]

        def normal(*shape: int) -> nn.Parameter:
            draws = [torch.randn(*shape, generator=generator) for generator in generators]
            return nn.Parameter(torch.stack(draws) * shape[0] ** -0.5)

        # The maps are drawn last, so every variant of a seed starts from the same attention.
        self.W_Q, self.W_K = normal(d_token, d_head), normal(d_token, d_head)
        self.W_V = normal(d_token, 1)
        self.maps = nn.ParameterList()
        if augmentation == "linear":
            self.maps.extend(nn.Parameter(torch.zeros(len(seeds), width, width)) for width in (d_head, 1))
        elif augmentation == "mlp":
            for width in (d_head, 1):
                self.maps.append(normal(width, 2 * d_head))
                self.maps.append(nn.Parameter(torch.zeros(len(seeds), 2 * d_head, width)))

    def forward(self, prompts: Tensor) -> Tensor:
        """Return the predictions [copy, prompt] for prompts [copy, prompt, token, d_token]."""
        weights = [weight.unsqueeze(1) for weight in (self.W_Q, self.W_K, self.W_V)]
        q, k, v = prompts[:, :, -1:] @ weights[0], prompts @ weights[1], prompts @ weights[2]
        demonstrations = torch.arange(prompts.shape[2]) < prompts.shape[2] - 1
        if self.maps:
            half = len(self.maps) // 2
            g_k, g_v = _residual_map(list(self.maps)[:half]), _residual_map(list(self.maps)[half:])
            output = augmented_attention(q, k, v, demonstrations, g_k, g_v)
        elif "b" in self.changes:
            output = negative_sample_attention(q, k, v, demonstrations, **self.changes)
        else:
            output = regularised_attention(q, k, v, demonstrations, self.changes.get("a", 0.0))
        return output[:, :, 0, 0]


def _residual_map(weights: Sequence[Tensor]) -> Callable[[Tensor], Tensor]:
    """``x + A x``, or ``x + B gelu(A x)``, copy by copy."""

    def apply(x: Tensor) -> Tensor:
        hidden = x @ weights[0].unsqueeze(1)
        if len(weights) == 1:
            return x + hidden
        return x + nn.functional.gelu(hidden) @ weights[1].unsqueeze(1)

    return apply


def _train(
    task: RegressionTask,
    changes: dict[str, Any],
    seeds: Sequence[int],
    n_demonstrations: int,
    d_x: int,
    d_head: int,
    n_steps: int,
    batch_size: int,
    n_test: int,
    learning_rate: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Train one setting for all seeds at once; return the errors [seed] at the end of training and on the test."""
    generators = [torch.Generator().manual_seed(number) for number in seeds]

    def draw(n_prompts: int) -> tuple[Tensor, Tensor]:
        drawn = [regression_prompts(task, n_prompts, n_demonstrations, d_x, generator) for generator in generators]
        return torch.stack([prompts for prompts, _ in drawn]), torch.stack([answers for _, answers in drawn])

    tests = draw(n_test)
    with torch.inference_mode(False), torch.enable_grad():
        model = InContextRegressor(seeds, d_x + 1, d_head, **changes)
        optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n_steps)
        late, n_late = torch.zeros(len(seeds)), max(n_steps // 10, 1)
        for step in range(n_steps):
            prompts, answers = draw(batch_size)
            errors = (model(prompts) - answers).square().mean(dim=1)
            optimizer.zero_grad()
            errors.sum().backward()
            optimizer.step()
            schedule.step()
            if step >= n_steps - n_late:
                late += errors.detach() / n_late
    with torch.no_grad():
        test_error = (model(tests[0]) - tests[1]).square().mean(dim=1)
    return late.double().numpy(), test_error.double().numpy()


def _t_interval(sample: np.ndarray, level: float) -> tuple[float, float]:
    from scipy.stats import t

    if len(sample) < 2:
        return float("nan"), float("nan")
    half = float(t.ppf((1 + level) / 2, len(sample) - 1)) * float(sample.std(ddof=1)) / len(sample) ** 0.5
    return float(sample.mean()) - half, float(sample.mean()) + half
