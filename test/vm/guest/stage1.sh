#!/bin/sh
# First program on the root disk: mounts the folder shared by the host and hands
# over to the init script in it.
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs -o mode=755 run /run
mkdir -p /run/vm/host
modprobe -a 9p 9pnet_virtio virtio_console
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 host /run/vm/host
exec /bin/bash /run/vm/host/init.sh
