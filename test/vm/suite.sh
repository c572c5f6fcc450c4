#!/bin/bash
# Runs the suites in the VM: all, or those named (lvmtest, mountertest, node, sanity), each with go test's flags
# after a comma: node,-test.run=TestErase.
set -u
mkfs.ext4 -q -O ^has_journal /dev/vdb && mkdir -p /data && mount /dev/vdb /data || exit
export TMPDIR=/data
modprobe -a loop dm-snapshot dm-thin-pool dm-raid dm-delay ext4 xfs btrfs || exit
failed=
[ $# -gt 0 ] || set -- lvmtest mountertest node sanity
for suite; do
	name=${suite%%,*} flags=()
	[ "$suite" = "$name" ] || IFS=, read -ra flags <<<"${suite#*,}"
	echo "=== suite $name"
	if [ "$name" = sanity ]; then
		truncate -s 3G /data/sanity.img && loop=$(losetup --find --show /data/sanity.img) && vgcreate -qq sanity "$loop" || exit
		flags=(-vg sanity "${flags[@]}")
	fi
	./"$name.test" -test.v -test.timeout=30m "${flags[@]}" || failed="$failed $name"
	if [ "$name" = sanity ]; then
		lvs --noheadings sanity | grep . && failed="$failed sanity(left-overs)"
		vgremove -qq -f -y sanity; losetup -d "$loop"; rm -f /data/sanity.img
	fi
done
[ -z "$failed" ] || { echo "FAILED:$failed"; exit 1; }
echo "all suites passed on LVM $(lvm version 2>/dev/null | awk '/LVM version/{print $3}'), kernel $(uname -r)"
