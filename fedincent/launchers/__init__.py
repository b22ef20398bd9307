"""What carries out many runs: processes of this machine, Ray, SLURM."""

from fedincent.launchers.base import Launcher, Order, State, load_launcher

__all__ = ["Launcher", "Order", "State", "load_launcher"]
