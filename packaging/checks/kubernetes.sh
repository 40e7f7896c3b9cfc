#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Checks the form of the manifest (`cargo xtask integrations`). An API server checks its schemas
# (runtimes/kubelet.sh).

set -eu

yamllint --strict --config-data '{extends: default, rules: {line-length: {max: 120}}}' \
    /integrations/kubernetes/policyd.yaml
python3 /checks/kubernetes.py /integrations/kubernetes/policyd.yaml
