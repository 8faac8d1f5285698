# SPDX-License-Identifier: MIT OR Apache-2.0
"""The ops of the dialect, one file a category. `fuel_dialect.dialect` lists them."""
