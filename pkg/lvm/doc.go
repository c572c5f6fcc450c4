// Package lvm is LVM as typed Go: the verbs that lvm-csi needs, the report of
// a volume group as structs, and errors classified from LVM's own command log.
//
// It knows lvm's command lines, its JSON, its messages and its traps, and that
// a killed lvm can leave device-mapper tables that must be put right before the
// next change. It refuses to know anything of CSI, of file systems, and of what
// the tags it writes mean.
//
// What callers must know:
//
//   - Absence is only ErrNotFound, and only a report that succeeded yields it.
//   - Changes to one VG go one at a time through a queue. Waiting there honours
//     the context; once a command has been started it is never killed, and the verb returns when the
//     command ends, whatever became of the context.
//   - After ErrUnknown the command may have done all, part or nothing of its work: what
//     it may have left half done in the kernel is put right at once, and a fresh report tells the rest.
//   - Sizes are bytes.
package lvm
