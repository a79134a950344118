"""To look at pipelines while they run (`fl.dashboard`, `fl.serve`), and later (`report`, `chrome_trace`).

A loop over a dataset pays nothing for it. Operators count what they do in any case; somebody who looks reads
these counters, from a thread of their own.

`passes.py` reads the counters and makes rates of them, `sampler.py` does so now and then and remembers,
`server.py` answers browsers and `feedline top`, `page.html` is what a browser shows, `report.py` is the same
page as a file, `prometheus.py`, `tensorboard.py` and `chrome_trace.py` speak to other tools, `pictures.py`
draws a batch, `announce.py` lets `feedline top` and `feedline dash` find a process.
"""

from __future__ import annotations

from .chrome_trace import chrome_trace
from .report import report
from .server import Server, dashboard, serve
from .tensorboard import TensorBoardLog, tensorboard

__all__ = ["Server", "TensorBoardLog", "chrome_trace", "dashboard", "report", "serve", "tensorboard"]
