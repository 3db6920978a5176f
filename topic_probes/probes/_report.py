"""What ``probe`` returns: attention, embedding, and the same of the untrained twin."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._folders import files_below, reading, whole_folder
from ..statistics import AttentionResult, EmbeddingResult

if TYPE_CHECKING:
    import pandas as pd

_LIST = "report.json"
"""Names the parts of a saved report, so that a missing one is noticed."""


@dataclass(frozen=True, eq=False)
class ProbeReport:
    """Attention and embedding of one model, and of its untrained twin over the same documents."""

    attention: AttentionResult
    embedding: EmbeddingResult | None
    """None where fewer than two labelled words are one token of the vocabulary."""
    baseline: ProbeReport | None = None
    """The same of the architecture with freshly initialised weights; None if it was not asked for."""

    @property
    def models(self) -> dict[str, ProbeReport]:
        """Return ``{"trained": self}``, with ``"untrained"`` where there is a baseline."""
        return {"trained": self} if self.baseline is None else {"trained": self, "untrained": self.baseline}

    def headline_frame(self, *, level: float = 0.95) -> pd.DataFrame:
        """Return P1's table: one row per model with ``same_topic cross_topic ratio ratio_low ratio_high``."""
        import pandas as pd

        rows = [
            {"model": name, **report.attention.headline(level=level).to_dict()} for name, report in self.models.items()
        ]
        return pd.DataFrame(rows)

    def to_frame(self) -> pd.DataFrame:
        """Return the heads of all models: the columns of ``AttentionResult.to_frame`` and ``model``."""
        import pandas as pd

        frames = [report.attention.to_frame().assign(model=name) for name, report in self.models.items()]
        return pd.concat(frames, ignore_index=True)

    def embedding_frame(self) -> pd.DataFrame:
        """Return the embedding measures of all models: the columns of ``EmbeddingResult.to_frame`` and ``model``."""
        import pandas as pd

        frames = [
            report.embedding.to_frame().assign(model=name)
            for name, report in self.models.items()
            if report.embedding is not None
        ]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    def plot_heads(self, ax: Any = None) -> Any:
        """Draw layers x heads, coloured by the log ratio of same- to cross-topic attention; return the Axes."""
        from ..report import plot_heads

        return plot_heads(self.attention.to_frame(), ax=ax)

    def plot_classes(self, ax: Any = None) -> Any:
        """Draw same- against cross-topic attention, trained against untrained; return the Axes."""
        import pandas as pd

        from ..report import plot_classes

        rows = [
            {
                "model": name,
                "pair_class": pair_class,
                "mean": headline[pair_class],
                "low": headline[f"{pair_class}_low"],
                "high": headline[f"{pair_class}_high"],
            }
            for name, report in self.models.items()
            for headline in [report.attention.headline().to_dict()]
            for pair_class in ("same_topic", "cross_topic")
        ]
        tidy = pd.DataFrame(rows)
        return plot_classes(tidy, ax=ax)

    def merge(self, other: ProbeReport) -> ProbeReport:
        """Return the report of both corpora, as if they had been probed at once.

        The embedding does not depend on the corpus and is kept.

        Raises:
            ValueError: if the two were measured in different ways, or only one of them has a baseline.
        """
        if not isinstance(other, ProbeReport):
            raise TypeError(f"a report can be merged with a ProbeReport, got {type(other).__name__}")
        if (self.baseline is None) != (other.baseline is None):
            raise ValueError("only reports measured alike can be merged: one has a baseline, the other has none")
        baseline = None
        if self.baseline is not None and other.baseline is not None:
            baseline = self.baseline.merge(other.baseline)
        return ProbeReport(self.attention.merge(other.attention), self.embedding, baseline)

    def save(self, folder: str | PathLike) -> None:
        """Write the report to a folder, whole or not at all; an earlier report there is replaced.

        Raises:
            FileExistsError: if ``folder`` holds something that is not a report, or something besides it.
        """
        with whole_folder(folder, kind="a saved report", replaceable=_is_report_alone) as new:
            self._write(new)

    def _write(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.attention.save(folder / "attention")
        if self.embedding is not None:
            self.embedding.save(folder / "embedding")
        if self.baseline is not None:
            self.baseline._write(folder / "baseline")
        parts = sorted(path.name for path in folder.iterdir())
        (folder / _LIST).write_text(
            json.dumps({"kind": "report", "format": 1, "parts": parts}) + "\n", encoding="utf-8"
        )

    @classmethod
    def load(cls, folder: str | PathLike) -> ProbeReport:
        """Return a report that :meth:`save` wrote.

        Raises:
            FileNotFoundError: if ``folder`` holds none, or a part of it is missing.
            ValueError: if it is damaged.
        """
        source = Path(folder).expanduser()
        if not (source / _LIST).is_file():
            raise FileNotFoundError(f"{folder} is not a saved report: it has no {_LIST}")
        with reading(folder, "report"):
            parts = json.loads((source / _LIST).read_text(encoding="utf-8"))["parts"]
        return cls(
            attention=AttentionResult.load(source / "attention"),
            embedding=EmbeddingResult.load(source / "embedding") if "embedding" in parts else None,
            baseline=cls.load(source / "baseline") if "baseline" in parts else None,
        )

    def __repr__(self) -> str:
        twin = "no baseline" if self.baseline is None else f"untrained: {self.baseline.attention!r}"
        return f"ProbeReport({self.attention!r}, {self.embedding!r}, {twin})"


def _is_report_alone(folder: Path) -> bool:
    """Whether a folder holds a report and nothing else, at any depth."""
    report = re.compile(rf"(baseline/)*({_LIST}|(attention|embedding)/(description\.json|arrays\.safetensors))")
    return (folder / _LIST).is_file() and all(report.fullmatch(path) for path in files_below(folder))
