// Package vm boots virtual machines with stock Debian kernels and runs
// programs in them: real device-mapper and real LVM on a developer's machine,
// whatever its own kernel has.
//
// It knows Debian images (Spec, Image), QEMU (Machine) and how to run one
// program to its end (Run). It knows nothing about LVM, CSI or Kubernetes.
//
// The guest's root disk is thrown away after each boot, its data disks live as
// long as one Run, across the power cuts that the program asks for.
//
// Needed on the host: Linux on amd64 with qemu-system-x86_64, mmdebstrap and
// mkfs.ext4; KVM is used when it works. Root is not needed.
package vm
