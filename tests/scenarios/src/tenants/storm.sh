# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2086
# Actions of a user in a subtree of their own, as fast as a shell can execute them.
cd "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service" || exit
mkdir -p init.scope app.slice hog
echo $$ > init.scope/cgroup.procs
echo "+memory +pids" > cgroup.subtree_control
while [ ! -s /run/storm/begin ]; do sleep 1; done

# Cgroups named like those of others.
id=$(cat /run/storm/begin)
mkdir machine.slice system.slice
for place in . app.slice machine.slice system.slice; do
    mkdir "$place/libpod-$id.scope" "$place/docker-$id.scope" "$place/one.service" \
        "$place/two.service" "$place/gold"
done

# Names that control terminals, shells and programs.
escape=$(printf '\033]0;owned\007\033[2J\033[31m')
turned=$(printf '\342\200\256')
mkdir "app.slice/web$escape.service" "app.slice/web;touch \$(reboot).service" \
    "app.slice/web--help.service" "app.slice/web$turned.service" "app.slice/web\`reboot\`.service"

# Memory that is allocated and freed again and again.
while :; do
    sh -c 'echo $$ > hog/cgroup.procs; head -c 300M /dev/zero | tail -c 300M > /dev/null'
    sleep 2
done &

round=0
names=$(seq -f app.slice/web-%g.service 1 100)
others=$(seq -f app.slice/job-%g.service 1 100)
while :; do
    mkdir $names $others
    sleep 1000 &
    rmdir $names $others
    kill $!
    round=$((round + 1))
    echo $round > /run/storm/round
done
