# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs from Python: tracing, handles, graphs, branches and scans."""
