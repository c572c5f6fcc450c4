#!/bin/bash
# Captures what real LVM answers, for the tests of pkg/lvm:
#
#	capture.sh FOLDER
#
# writes FOLDER/<LVM version>/NAME.json, the full reports of some volume groups, and FOLDER/<LVM version>/commands, what other
# commands answer: for each a line "-- NAME CODE --", and then what came on LVM's report descriptor, or stderr where a
# command answers only there.
#
# It needs root, device-mapper with thin, snapshot and raid targets, loop devices, and 1 GiB under /var/tmp; it is meant
# for a virtual machine. From the repository, once for each of bullseye, bookworm and trixie:
#
#	go run ./test/vm/cmd -suite trixie -disks 1x4G -out pkg/lvm/testdata -- pkg/lvm/testdata/capture.sh /out
#
# The options are those of pkg/lvm (process.go, report.go): keep them the same.
set -u
out=${1:?usage: capture.sh FOLDER}
export LC_ALL=C LVM_SUPPRESS_FD_WARNINGS=1 HOME=/nonexistent
dir=/var/tmp/capture
mkdir -p $dir
export LVM_SYSTEM_DIR=$dir
echo 'devices { filter=["a|^/dev/mapper/cap|","r|.*|"] }' >$dir/lvm.conf
version=$(lvm version | sed -n 's/.*LVM version: *\([0-9.]*\).*/\1/p')
out=$out/$version
rm -rf "$out"
mkdir -p "$out"
modprobe loop max_loop=32 2>/dev/null
modprobe -a dm-mod dm-thin-pool dm-snapshot dm-raid raid1 raid456 2>/dev/null

log='log { report_command_log=1 command_log_sort="log_seq_num" command_log_selection="all" command_log_cols="log_type,log_context,log_object_type,log_object_name,log_object_group,log_message,log_errno,log_ret_code" } report { time_format="%s" }'
fields=(--units b --nosuffix --binary
	--configreport vg -o vg_name,vg_uuid,vg_attr,vg_extent_size,vg_extent_count,vg_free_count,vg_mda_free,vg_mda_size,vg_seqno,vg_systemid,vg_partial,vg_exported,vg_shared,vg_clustered,vg_permissions
	--configreport pv -o pv_name,pv_uuid,pv_pe_count,pv_pe_alloc_count,pv_allocatable,pv_missing,pv_duplicate,pv_tags
	--configreport lv -o lv_name,lv_uuid,lv_size,lv_tags,lv_layout,lv_role,origin,lv_time,lv_active_locally,lv_device_open,lv_suspended,lv_inactive_table,lv_health_status,lv_kernel_major,lv_kernel_minor,lv_attr
	--configreport pvseg -o pvseg_size --configreport seg -o segtype)

# lvm_ COMMAND ARGS...: as pkg/lvm runs it. The answer is in $answer, the exit status in $code.
lvm_() {
	local command=$1
	shift
	code=0
	if [[ " $* " == *" -S "* ]]; then
		lvm "$command" --config 'log { report_command_log=0 }' "$@" >/dev/null 2>$dir/err || code=$?
		: >$dir/answer
	else
		LVM_REPORT_FD=3 lvm "$command" --config "$log" --reportformat json "$@" >/dev/null 2>$dir/err 3>$dir/answer || code=$?
	fi
	answer=$dir/answer
	[ -s $answer ] || answer=$dir/err
}
run() {
	local name=$1
	shift
	lvm_ "$@"
	{
		echo "-- $name $code --"
		cat $answer
	} >>"$out/commands"
}
report() {
	lvm_ fullreport "${fields[@]}" --nolocking "$2"
	cat $answer >"$out/$1.json"
}
settle() { [ ! -e /run/udev/control ] || udevadm settle; }
plug() { dmsetup create "cap$1" --table "$(cat "$dir/$1.table")" && settle; }
unplug() { settle; dmsetup remove --retry "cap$1"; }
# pv N SIZE OPTIONS...
pv() {
	local n=$1 size=$2
	shift 2
	truncate -s "$size" "$dir/$n"
	losetup --find --show "$dir/$n" >"$dir/$n.loop"
	echo "0 $(blockdev --getsz "$(cat "$dir/$n.loop")") linear $(cat "$dir/$n.loop") 0" >"$dir/$n.table"
	plug "$n"
	pvcreate -qq "$@" "/dev/mapper/cap$n"
}
# fresh makes new PVs of the three, whatever VG they are in.
fresh() {
	for n in 1 2 3; do
		wipefs -qa "/dev/mapper/cap$n"
		pvcreate -qq "/dev/mapper/cap$n"
	done
}
create=(lvcreate -A n -y -W y -Z y)

# An empty VG, the same exported, and with one LV of each layout.
for n in 1 2 3; do pv $n 120M; done
vgcreate -qq capvg /dev/mapper/cap1 /dev/mapper/cap2 /dev/mapper/cap3
report empty capvg
vgexport -qq capvg
report exported capvg
run create-exported "${create[@]}" -n x -L 4194304b capvg
vgimport -qq capvg
run lvcreate "${create[@]}" -n linear -L 4194816b --addtag lvm-csi.io/v=1 --addtag 'a_+.-/=!:&#' capvg
lvcreate -qq -y -n striped -L 16m -i 3 capvg
lvcreate -qq -y --type raid1 -m 1 -n raid1 -L 8m --nosync capvg
lvcreate -qq -y --type raid5 -i 2 -n raid5 -L 16m --nosync capvg
lvcreate -qq -y -an -Zn -Wn -n inactive -L 4m capvg 2>/dev/null
lvcreate -qq -y -n origin -L 4m capvg
lvcreate -qq -y -s -n snap -L 4m capvg/origin
lvcreate -qq -y --type thin-pool -n pool -L 12m capvg 2>/dev/null
lvcreate -qq -y --type thin -V 1g --thinpool pool -n thin capvg 2>/dev/null
lvcreate -qq -y -s -kn -n thinsnap capvg/thin 2>/dev/null
lvcreate -qq -y -n stranded -L 4m capvg
settle
dmsetup load capvg-stranded --table "0 8192 error"
dmsetup suspend capvg-stranded
exec 9</dev/mapper/capvg-linear
report healthy capvg

# What fails.
run exists "${create[@]}" -n linear -L 4194304b capvg
run create-no-space "${create[@]}" -n x -L 1099511627776b capvg
run create-absurd "${create[@]}" -n x -L 72057594037927936b capvg
run create-no-vg "${create[@]}" -n x -L 4194304b capnosuch
run create-bad-name "${create[@]}" -n snapshot1 -L 4194304b capvg
run extend-same lvextend -A n -y -L 8388608b capvg/linear
run extend-smaller lvextend -A n -y -L 4194304b capvg/linear
run extend-no-space lvextend -A n -y -L 1099511627776b capvg/linear
run extend-absent lvextend -A n -y -L 1099511627776b capvg/nosuch
run extend-origin lvextend -A n -y -L 8388608b capvg/origin
run remove-open lvremove -A n -y capvg/linear
run remove-absent lvremove -A n -y capvg/nosuch
run remove-selected-absent lvremove -A n -y -S 'lv_name="nosuch" && lv_tags="x" && lv_role!="thickorigin" && lv_device_open!=1' capvg
run remove-selected-no-vg lvremove -A n -y -S 'lv_name="nosuch" && lv_tags="x" && lv_role!="thickorigin" && lv_device_open!=1' capnosuch
run deactivate-open lvchange -A n -y -a n capvg/linear
run activate-absent lvchange -A n -y -a y capvg/nosuch
run retag lvchange -A n -y --addtag b --deltag lvm-csi.io/v=1 capvg/linear
run retag-absent lvchange -A n -y --addtag b capvg/nosuch
run retag-bad-tag lvchange -A n -y --addtag 'a b' capvg/linear
run report-no-vg fullreport "${fields[@]}" --nolocking capnosuch
exec 9<&-
dmsetup clear capvg-stranded
run refresh lvchange -A n -y --refresh capvg/stranded
run extend lvextend -A n -y -L 16777216b capvg/linear
run backup vgcfgbackup capvg

# Another host's.
vgchange -qq -y -a n capvg
vgchange -qq -y --systemid another capvg
run report-foreign fullreport "${fields[@]}" --nolocking capvg
run create-foreign "${create[@]}" -n x -L 4194304b capvg
fresh

# Two of one name.
vgcreate -qq capvg /dev/mapper/cap1
vgcreate -qq --config 'devices { filter=["a|^/dev/mapper/cap2$|","r|.*|"] }' capvg /dev/mapper/cap2
run report-two fullreport "${fields[@]}" --nolocking capvg
run create-two "${create[@]}" -n x -L 4194304b capvg
fresh

# A missing PV, and one that came back after a change.
vgcreate -qq capvg /dev/mapper/cap1 /dev/mapper/cap2
lvcreate -qq -y -an -Zn -Wn -n here -L 4m capvg /dev/mapper/cap1 2>/dev/null
lvcreate -qq -y -an -Zn -Wn -n gone -L 4m capvg /dev/mapper/cap2 2>/dev/null
unplug 2
report partial capvg
run create-partial "${create[@]}" -n x -L 4194304b capvg
run extend-partial lvextend -A n -y -L 8388608b capvg/here
run activate-partial-here lvchange -A n -y -a y capvg/here
run activate-partial lvchange -A n -y -a y capvg/gone
run refresh-partial lvchange -A n -y --refresh capvg/gone
run retag-partial lvchange -A n -y --addtag x capvg/here
plug 2
report outdated capvg
run create-outdated "${create[@]}" -n x -L 4194304b capvg
run activate-outdated lvchange -A n -y -a y capvg/gone

# A full metadata area.
pv 4 100M --metadatasize 124k --dataalignment 4k
vgcreate -qq capfull /dev/mapper/cap4
tags=()
for n in {1..40}; do tags+=(--addtag "$n/$(printf 'x%.0s' {1..1000})"); done
lvcreate -qq -y -an -Zn -Wn -n a -L 4m "${tags[@]}" capfull 2>/dev/null
lvcreate -qq -y -an -Zn -Wn -n b -L 4m "${tags[@]:0:30}" capfull 2>/dev/null
for n in {60..80}; do lvchange -qq -A n --addtag "$n/$(printf 'x%.0s' {1..1000})" capfull/b 2>/dev/null; done
lvcreate -qq -y -an -Zn -Wn -n c -L 4m capfull 2>/dev/null
run create-full "${create[@]}" -n x -L 4194304b "${tags[@]:0:2}" capfull
run retag-full lvchange -A n -y --addtag "$(printf 'x%.0s' {1..1000})" capfull/a
report full capfull
sed -i 's/x\{100,\}/xxx/g' "$out/full.json" # the tags
run remove-full lvremove -A n -y capfull/b

lvremove -qq -y -f capvg capfull 2>/dev/null
dmsetup ls | awk '/^cap(vg|full)-/ {print $1}' | xargs -r -n 1 dmsetup remove --retry
for n in 1 2 3 4; do
	unplug $n
	losetup -d "$(cat "$dir/$n.loop")"
done
rm -rf $dir
ls -l "$out"
