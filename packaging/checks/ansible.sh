#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Checks the role and the playbook with Ansible's own tools (`cargo xtask integrations`).

set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -R /integrations/ansible "$work"
cd "$work/ansible"
# Ansible writes caches below the home directory.
export HOME="$work"
ansible-playbook --syntax-check --inventory 'localhost,' site.yml
ansible-lint --offline --profile production site.yml roles
