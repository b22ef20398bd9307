"""Local training of many clients: the inner loop once, and executors around it."""

from fedincent.training.executor import Executor
from fedincent.training.trainer import Trainer, Workload

__all__ = ["Executor", "Report", "Trainer", "Workload"]
