#!/bin/busybox sh
# /init of the initrd: the few modules that the root disk needs, in load order,
# and nothing that would look for anything. Debian's own takes 6 s longer under
# emulation.
/bin/busybox mount -t proc proc /proc
if /bin/busybox grep -q vm.probe /proc/cmdline; then
	echo vm-probe-ok
	/bin/busybox reboot -f
fi
/bin/busybox mount -t devtmpfs dev /dev
# A module for a CPU feature that is not there does not load, and need not.
while read -r module; do
	/bin/busybox insmod "$module" 2>/dev/null
done </modules
/bin/busybox mount -t ext4 /dev/vda /root
/bin/busybox mount -o move /dev /root/dev
/bin/busybox umount /proc
exec /bin/busybox switch_root /root /usr/local/sbin/stage1
