"""Local training of many clients: the inner loop once, and executors around it."""

from fedincent.training.executor import Executor

__all__ = ["Executor"]
