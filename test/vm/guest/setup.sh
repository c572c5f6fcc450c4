#!/bin/sh
# Runs in the new root when its packages are installed. Leaves /vm/vmlinux and
# /vm/initrd for the host.
set -eu
export LC_ALL=C
kernel=$(basename /lib/modules/*)
mkdir /vm

# QEMU starts an uncompressed kernel at its PVH entry point. A compressed one
# first unpacks itself, which takes 4 s under emulation. The payload begins at
# one of the places that look like the header of its compression.
unpack() {
	grep -abo -P "$1" "/boot/vmlinuz-$kernel" | cut -d: -f1 | while read -r offset; do
		tail -c +$((offset + 1)) "/boot/vmlinuz-$kernel" | $2 >/vm/vmlinux 2>/dev/null || true
		# Whatever follows the payload is an error to the unpacker.
		[ "$(head -c 4 /vm/vmlinux)" = "$(printf '\177ELF')" ] && break
	done
	[ "$(head -c 4 /vm/vmlinux)" = "$(printf '\177ELF')" ]
}
unpack '\xFD7zXZ\x00' 'xz -dc' || unpack '\x28\xB5\x2F\xFD' 'zstd -dcq'

tree=$(mktemp -d)
mkdir -p "$tree/bin" "$tree/dev" "$tree/proc" "$tree/root"
cp "$(command -v busybox)" "$tree/bin/busybox"
install -m 755 /tmp/initrd.sh "$tree/init"
modprobe --set-version "$kernel" --all --show-depends virtio_pci virtio_blk ext4 crc32c_generic |
	while read -r insmod module _; do
		[ "$insmod" = insmod ] || continue # "builtin"
		name=$(basename "${module%.xz}")
		[ -e "$tree/$name" ] && continue
		case $module in
		*.xz) xz -dc "$module" >"$tree/$name" ;;
		*) cp "$module" "$tree/$name" ;;
		esac
		echo "/$name" >>"$tree/modules"
	done
(cd "$tree" && find . | cpio --quiet -o -H newc >/vm/initrd)

install -m 755 /tmp/stage1.sh /usr/local/sbin/stage1
ln -sf /proc/self/mounts /etc/mtab
# What mmdebstrap took over from the host, which is no business of the guest's.
: >/etc/resolv.conf
echo vm >/etc/hostname
printf '127.0.0.1 localhost vm\n::1 localhost\n' >/etc/hosts
mkdir /job /out
rm -rf "$tree" /boot/* /initrd.img* /vmlinuz* /tmp/*.sh
