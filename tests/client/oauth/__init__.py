"""Tests of `redstart.client`, against real servers wherever there is one."""
