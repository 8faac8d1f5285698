# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The devices of a session: `interface` says what a device is, `opening` makes names devices.

A folder for each kind holds its driver and its probe; `fuel_dialect.targets` says which target
names them.
"""
