# SPDX-License-Identifier: GPL-2.0-or-later
# Written by scripts/public_api.py; schedperf/__init__.py reads it.

from .api import figure as figure
from .api import open_bundle as open_bundle
from .api import open_history as open_history
from .api import read_bisection as read_bisection
from .api import read_comparison as read_comparison
from .api import read_culprit as read_culprit
from .api import read_table as read_table
from .compare.bundles import compare_bundles as compare_bundles
from .compare.options import CompareOptions as CompareOptions
from .evidence.account.record import Account as Account
from .evidence.blocking.record import BlockedTrees as BlockedTrees
from .evidence.blocking.record import Blocking as Blocking
from .evidence.c2c.record import C2c as C2c
from .evidence.energy.record import Energy as Energy
from .evidence.layout.record import Layout as Layout
from .evidence.layout.record import LayoutMap as LayoutMap
from .evidence.load.record import Load as Load
from .evidence.locks.record import Locks as Locks
from .evidence.pelt.record import Pelt as Pelt
from .evidence.perf_stat.record import Counters as Counters
from .evidence.placement.record import Placement as Placement
from .evidence.preemption.record import Preemption as Preemption
from .evidence.probe_effect.record import ProbeEffect as ProbeEffect
from .evidence.profile.flame_record import FlameTrees as FlameTrees
from .evidence.profile.record import Profile as Profile
from .evidence.realtime.record import Realtime as Realtime
from .evidence.sched_ext.record import SchedExt as SchedExt
from .evidence.schedstat.record import Schedstat as Schedstat
from .evidence.scx_stats.record import ScxStats as ScxStats
from .evidence.system.record import SystemCounters as SystemCounters
from .evidence.wakeup_latency.record import WakeupLatency as WakeupLatency
from .history.questions.history import History as History
from .lab.bisect.document import BisectDocument as BisectDocument
from .model.comparison import Comparison as Comparison
from .model.errors import InputError as InputError
from .publish.culprit.record import Culprit as Culprit
from .stats import compare_runs as compare_runs

__version__: str
