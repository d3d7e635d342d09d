"""Runs every test of this folder under all schedules."""

from __future__ import annotations

import pytest
from emulated import SCHEDULES, settings_for
from ptxemu import Settings


@pytest.fixture(params=SCHEDULES, ids=lambda schedule: f"{schedule[0]}{schedule[1]}")
def settings(request: pytest.FixtureRequest) -> Settings:
    return settings_for(request.param)
