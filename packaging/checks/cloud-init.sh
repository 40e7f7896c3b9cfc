#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Checks the user data against cloud-init's schema (`cargo xtask integrations`).

set -eu

cloud-init schema --config-file /integrations/cloud-init/guest.yaml
rules='{line-length: {max: 120}, document-start: disable, comments: {ignore-shebangs: true, require-starting-space: false}}'
yamllint --strict --config-data "{extends: default, rules: $rules}" \
    /integrations/cloud-init/guest.yaml
