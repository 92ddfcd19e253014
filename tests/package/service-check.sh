#!/bin/sh
# Runs as a service of the system that service.sh has booted: the package is installed, used, updated and removed.
set -eu

fail() {
    printf 'FAILED: %s\n' "$*"
    systemctl --no-pager --full status windlass.service || true
    journalctl --no-pager --unit windlass.service || true
    exit 1
}

# The ids of the mounts below the root.
mounts() { awk '$5 ~ "^/var/lib/windlass/" { print $1 }' /proc/1/mountinfo; }

install() { dpkg --install --force-depends /windlass.deb 2>&1 || fail "dpkg does not install the package"; }

is_active() { [ "$(systemctl is-active windlass.service)" = active ] || fail "the service does not run after $1"; }

mkdir -p /etc/windlass/manifests
cat >/etc/windlass/manifests/web.yaml <<'MANIFEST'
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData: {password: correct horse}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  securityContext: {fsGroup: 2000}
  containers:
  - name: app
    image: busybox
    volumeMounts:
    - {name: key, mountPath: /etc/key}
    - {name: scratch, mountPath: /scratch}
  volumes:
  - {name: key, secret: {secretName: key}}
  - {name: scratch, emptyDir: {}}
MANIFEST

install
is_active "it was installed"
systemctl is-enabled --quiet windlass.service || fail "the service is not enabled"
windlass wait web --timeout 30s || fail "the volumes do not come"
before=$(mounts)
[ -n "$before" ] || fail "nothing is mounted where systemd sees it"
daemon=$(systemctl show --property MainPID --value windlass.service)
[ "$(readlink "/proc/$daemon/ns/mnt")" = "$(readlink /proc/1/ns/mnt)" ] || fail "it has a mount namespace of its own"
grep -q '^NoNewPrivs:[[:space:]]*1$' "/proc/$daemon/status" || fail "it may get new privileges"
grep -q '^Seccomp:[[:space:]]*2$' "/proc/$daemon/status" || fail "no system calls are forbidden"
scratch=$(echo /var/lib/windlass/pods/*/volumes/kubernetes.io~empty-dir/scratch)
[ "$(stat -c %g:%A "$scratch")" = 2000:drwxrwsrwx ] || fail "the group of the pod does not have its volume: $(stat "$scratch")"

systemctl reload windlass.service || fail "it cannot be reloaded"
is_active "a reload"
systemctl restart windlass.service || fail "it cannot be restarted"
is_active "a restart"
[ "$(mounts)" = "$before" ] || fail "a restart has mounted anew"
install
is_active "an update"
[ "$(mounts)" = "$before" ] || fail "an update has mounted anew"
[ "$(systemctl show --property MainPID --value windlass.service)" != "$daemon" ] || fail "an update does not restart it"

dpkg --remove windlass 2>&1 || fail "dpkg does not remove the package"
[ "$(systemctl is-active windlass.service)" != active ] || fail "it runs after it was removed"
[ "$(mounts)" = "$before" ] || fail "a removal has unmounted what containers may use"
install
is_active "it was installed again"
rm /etc/windlass/manifests/web.yaml
windlass wait --for=unmounted web --timeout 30s || fail "the volumes do not go"
[ -z "$(mounts)" ] || fail "something is still mounted"
dpkg --purge windlass 2>&1 || fail "dpkg does not purge the package"
[ ! -e /var/lib/windlass ] || fail "a purge has left state"
echo 'all as it should be'
