"""The demo: topics from Wikipedia, a real encoder and a real decoder, and their untrained twins, offline."""

from ._dual import run_dual
from ._models import open_minilm, open_smollm2
from ._run import run_demo
from ._toy import run_toy

__all__ = ["open_minilm", "open_smollm2", "run_demo", "run_dual", "run_toy"]
