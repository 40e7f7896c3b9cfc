#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests the manifest in a cluster of one node with the commands of docs/users/integrations.md, and
# that policyd finds pods by their names and annotations. The cluster has a network of its own.

set -eu
[ "${1-}" = inside ] || exec unshare --net sh -eux "$0" inside
# shellcheck source=packaging/checks/runtimes/expect.sh
. /checks/runtimes/expect.sh
# shellcheck source=packaging/checks/runtimes/node.sh
. /checks/runtimes/node.sh

manifest=/integrations/kubernetes/policyd.yaml
busybox ip link set lo up
# The kubelet accepts no address of the loopback network.
busybox ip address add 192.0.2.1/32 dev lo
mount_all
mount_controllers
make_rootfs
trap end_node EXIT
start_containerd
# The Debian package would install policyd there.
mkdir -p "$work/rootfs/usr/sbin"
cp /tools/policyd "$work/rootfs/usr/sbin"
entry=$(sed -n 's/^ENTRYPOINT //p' /integrations/kubernetes/Containerfile)
make_image "$(sed -n 's/^ *image: //p' "$manifest")" "\"Entrypoint\": $entry"

export KUBECONFIG="$work/kubeconfig"
openssl genrsa -out "$work/key" 2048
echo 'admin,admin,admin,system:masters' >"$work/tokens"
kubectl config set-cluster here --server https://127.0.0.1:6443 --insecure-skip-tls-verify
kubectl config set-credentials admin --token admin
kubectl config set-context here --cluster here --user admin
kubectl config use-context here
start etcd --data-dir "$work/etcd" --unsafe-no-fsync
start kube-apiserver --etcd-servers http://127.0.0.1:2379 --cert-dir "$work/tls" \
    --bind-address 127.0.0.1 --advertise-address 192.0.2.1 --endpoint-reconciler-type none \
    --kubelet-preferred-address-types InternalIP --service-cluster-ip-range 198.51.100.0/24 \
    --token-auth-file "$work/tokens" --authorization-mode RBAC --allow-privileged \
    --service-account-issuer https://kubernetes.default.svc \
    --service-account-key-file "$work/key" --service-account-signing-key-file "$work/key"
wait_until kubectl get --raw /readyz
start kube-controller-manager --kubeconfig "$KUBECONFIG" --leader-elect=false \
    --service-account-private-key-file "$work/key"
start kube-scheduler --kubeconfig "$KUBECONFIG" --leader-elect=false
cat >"$work/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
podLogsDir: $work/pods
cgroupDriver: cgroupfs
failSwapOn: false
localStorageCapacityIsolation: false
makeIPTablesUtilChains: false
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
evictionHard: {nodefs.available: "0%", imagefs.available: "0%", memory.available: "0%"}
END
[ -e /dev/kmsg ] || mknod -m 600 /dev/kmsg c 1 11
# The kubelet changes these settings. It gets copies, which leave those of the machine alone.
for setting in kernel/keys/root_maxbytes kernel/keys/root_maxkeys kernel/panic \
    kernel/panic_on_oops vm/overcommit_memory vm/panic_on_oom; do
    mkdir -p "$work/sys/$setting"
    cp "/proc/sys/$setting" "$work/sys/$setting/copy"
    mount --bind "$work/sys/$setting/copy" "/proc/sys/$setting"
done
# Volumes are mounted below this mount, and end with it.
mkdir "$work/kubelet"
mount -t tmpfs tmpfs "$work/kubelet"
start kubelet --kubeconfig "$KUBECONFIG" --config "$work/kubelet.yaml" --root-dir "$work/kubelet" \
    --cert-dir "$work/tls" --hostname-override node --node-ip 192.0.2.1
wait_until kubectl get node node

# A misspelled field is refused.
! sed 's/hostNetwork:/hostNetwok:/' "$manifest" |
    kubectl apply --validate=strict -f - 2>"$work/said" || fail 'any field is accepted'
grep -F 'unknown field "spec.template.spec.hostNetwok"' "$work/said"

# The commands of the page.
kubectl label node node doubledecker=guest
kubectl apply --validate=strict -f "$manifest"
kubectl diff -f "$manifest"
of_policyd='kubectl -n doubledecker'
is_running="$of_policyd logs daemonset/policyd | grep 'metrics at'"
wait_until sh -c "$is_running"
# It has no token.
[ "$($of_policyd get pods -o 'jsonpath={.items[*].spec.volumes[*].name}')" = \
    'config cgroup state containerd containers tmp' ]
kubectl auth can-i --list --as system:serviceaccount:doubledecker:policyd |
    sed 1d | cut -d ' ' -f 1 | grep . | sort >"$work/rights"
cat >"$work/least" <<END
selfsubjectaccessreviews.authorization.k8s.io
selfsubjectreviews.authentication.k8s.io
selfsubjectrulesreviews.authorization.k8s.io
END
diff "$work/least" "$work/rights"

# A deployment whose pods get an annotation by a command of the page.
kubectl create namespace shop
kubectl apply -f - <<END
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      hostNetwork: true
      terminationGracePeriodSeconds: 1
      tolerations: [{operator: Exists}]
      containers: [{name: server, image: "localhost/busybox:1"}]
END
kubectl -n shop rollout status deployment/web --timeout 60s
kubectl -n shop patch deployment web --type merge -p \
    '{"spec":{"template":{"metadata":{"annotations":{"cache.example.com/class":"gold"}}}}}'
kubectl -n shop rollout status deployment/web --timeout 60s
has_pods() {
    [ "$(kubectl -n shop get pods --output name | wc -l)" = "$1" ]
}
wait_until has_pods 1
pod=$(kubectl -n shop get pods -o 'jsonpath={.items[0].metadata.name}')

# From here on policyd runs in its pod, which has the files of containerd from the node. It sees
# paths of cgroups in its /tmp, which is a volume.
uid=$($of_policyd get pods -o 'jsonpath={.items[0].metadata.uid}')
mkdir -p "$work/kubelet/pods/$uid/volumes/kubernetes.io~empty-dir/tmp/seen" /tmp/seen
mount --bind "$work/kubelet/pods/$uid/volumes/kubernetes.io~empty-dir/tmp/seen" /tmp/seen
seen=/tmp/seen
policyd() {
    kubectl -n doubledecker exec daemonset/policyd -- /usr/sbin/policyd "$@"
}
policyd check --file-only /etc/doubledecker/policyd.toml
expect_found "pod = \"shop/$pod\"" ''
expect_found "pod = \"shop/$pod\"
pod_container = \"server\"
pod_annotations = { \"cache.example.com/class\" = \"gold\" }" ''
expect_missing 'does not run now' "pod = \"store/$pod\"" ''
expect_missing 'does not run now' "pod = \"shop/$pod\"
pod_annotations = { \"cache.example.com/class\" = \"bronze\" }" ''
kubectl -n shop delete deployment web
wait_until has_pods 0
expect_missing 'does not run now' "pod = \"shop/$pod\"" ''
umount "$seen"

# Another pod takes the place of the old one.
$of_policyd rollout restart daemonset/policyd
wait_until sh -c "$of_policyd get pods -o 'jsonpath={.items[*].metadata.uid}' | grep -v $uid"
wait_until sh -c "$is_running"
