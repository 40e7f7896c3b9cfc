#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Checks the form of the manifest (`cargo xtask integrations`). Debian has no tool that checks the
# schemas of Kubernetes without an API server; the Python package kubernetes-validate does.

set -eu

yamllint --strict --config-data '{extends: default, rules: {line-length: {max: 120}}}' \
    /integrations/kubernetes/policyd.yaml
python3 /checks/kubernetes.py /integrations/kubernetes/policyd.yaml
