#!/bin/bash
# PID 1 of the guest. Brings up what a program that uses LVM expects of a booted
# machine, runs the program and says how it ended.
#
# Its own words and those of the daemons go to the kernel's console, so that it
# shows where a boot got stuck. The program's output goes through a FIFO and one
# virtio port to the host: the port can be opened once only, the FIFO as often as
# a program likes to open /dev/stderr. Messages to the host take the same way, so
# that none overtakes the output that came before it: NUL, a word that only host
# and guest know, and the message.
#
# A step that fails ends PID 1, so the kernel panics and the host hears of it.
set -eu
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/root LANG=C.UTF-8 TERM=dumb

echo "init: mounts"
mkdir -p /dev/pts /dev/shm
mount -t devpts -o mode=620,ptmxmode=666 devpts /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t tmpfs -o mode=1777 tmp /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /run/lock
# As systemd does: a mount made in one mount namespace is seen in the others.
mount --make-rshared /
hostname vm
ip link set lo up

# All that LVM waits for is udev's word about block devices. Triggering more
# loads drivers for two seconds.
echo "init: udev"
/lib/systemd/systemd-udevd --daemon
udevadm trigger --action=add --subsystem-match=block --subsystem-match=virtio-ports
udevadm settle

mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 out /out
# QEMU adds the port some time after its driver is loaded, so settle may have
# returned before there was an event to wait for; and bullseye's udevadm has no
# wait.
echo "init: output"
port=/dev/virtio-ports/output
until [ -c $port ]; do sleep 0.05; done
mkfifo /run/vm/output
cat /run/vm/output >$port &
exec 7>/run/vm/output

read -r word </run/vm/host/word
send() { printf '\0%s %s\n' "$word" "$*" >&7; }

cat >/usr/local/bin/powercut <<EOT
#!/bin/sh
# Cuts the power of this machine: nothing is synced or unmounted.
printf '\\0%s powercut\\n' $word >/run/vm/output
exec sleep infinity
EOT
chmod 755 /usr/local/bin/powercut

echo "init: program"
# Programs start slowly, and page in slowly, from the shared folder.
cp -a /run/vm/host/job/. /job/
mapfile -d '' -t argv </run/vm/host/argv
while IFS= read -r -d '' variable; do
	export "${variable?}"
done </run/vm/host/env

# From here on the console shows what the kernel has to say about the disks; it
# is silent before because a serial line is slow.
dmesg -n 7
send start
cd /job
status=0
"${argv[@]}" </dev/null >&7 2>&1 7>&- || status=$?
send exit $status
# The host switches off when it has read that.
exec sleep infinity
